"""How far a distance ends from the power law of its beginning.

The paper sees in proxy and golden curves that leave a polynomial rate, a straight line of log distance in log updates,
the sign of teacher hacking. Here the line is fitted to the first part of a run and extrapolated to its end.
"""

import numpy as np

MIN_POINTS = 3


def end_deviation(updates: np.ndarray, distance: np.ndarray, *, early: float) -> float:
    """Log of the last distance over what the line through the first `early` of the updates says; > 0: too far away.

    Parameters
    ----------
    updates, distance
        A run's checkpoints, [n] each, in order; update 0, which has no logarithm, is left out.

    Raises
    ------
    ValueError
        The early part has fewer than MIN_POINTS checkpoints, or a distance is 0.
    """
    positive = updates > 0
    x, y = updates[positive].astype(float), np.asarray(distance, dtype=float)[positive]
    first = x <= early * x.max(initial=0)
    if first.sum() < MIN_POINTS or not (y > 0).all():
        raise ValueError(
            f"a power law needs {MIN_POINTS} checkpoints in the first {early:.0%} and positive distances; it got "
            f"{first.sum()}, least distance {y.min(initial=0):g}: measure more often"
        )
    slope, level = np.polyfit(np.log(x[first]), np.log(y[first]), 1)
    return float(np.log(y[-1]) - (level + slope * np.log(x[-1])))


def log_log_r2(updates: np.ndarray, distance: np.ndarray) -> float:
    """Share of the variance of log distance that a straight line in log updates explains, over the whole run."""
    positive = updates > 0
    return float(np.corrcoef(np.log(updates[positive]), np.log(distance[positive]))[0, 1] ** 2)
