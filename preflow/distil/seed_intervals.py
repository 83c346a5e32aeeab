"""Means over seeds with their t intervals: with five seeds a bootstrap has too few values to resample."""

import numpy as np
from scipy.stats import t

from preflow.evaluation import LEVEL, Interval


def mean_over_seeds(values: np.ndarray) -> Interval:
    """Mean of one value a seed, [n], with its 95 % t interval.

    Raises
    ------
    ValueError
        There are fewer than two seeds, or a value is not finite.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(f"an interval over seeds needs two finite values or more; it got {values.tolist()}")
    mean = float(values.mean())
    half = float(t.ppf((1 + LEVEL) / 2, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    return Interval(mean, mean - half, mean + half, "seed")


def one_sided_bound(values: np.ndarray, *, rate: float, upper: bool) -> float:
    """What a further value of the same normal distribution passes with chance `rate`: a t prediction limit.

    Raises
    ------
    ValueError
        There are fewer than three values, or the rate is not between 0 and .5.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 3 or not 0 < rate < 0.5:
        raise ValueError(
            f"a bound needs three control runs or more and a rate in (0, .5); it got {len(values)}, {rate}"
        )
    reach = float(t.ppf(1 - rate, len(values) - 1) * values.std(ddof=1) * (1 + 1 / len(values)) ** 0.5)
    return float(values.mean()) + (reach if upper else -reach)
