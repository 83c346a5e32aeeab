"""The interval of a weighed mean of groups, of which each is resampled by itself."""

from typing import Any

import numpy as np
import polars as pl

from preflow.evaluation import LEVEL, MIN_CLUSTERS, MIN_ROUNDS, Interval

_CHUNK = 4_000_000  # drawn indices held at once


def stratified_interval(table: pl.DataFrame, *, rounds: int, seed: int) -> Interval | None:
    """Percentile interval of sum(weight * value) when clusters are resampled within strata (Davison, Hinkley, 1997).

    A stratum keeps its total weight in every resample, so that what is averaged over stays as it was weighed.

    Parameters
    ----------
    table
        Columns value, weight (of the row; they add up to 1), stratum and cluster.

    Returns
    -------
    The interval; None where a stratum has fewer than MIN_CLUSTERS clusters, of which no interval can be told.

    Raises
    ------
    ValueError
        `rounds` is below MIN_ROUNDS.
    """
    if rounds < MIN_ROUNDS:
        raise ValueError(f"{rounds} bootstrap rounds are too few for stable ends; take at least {MIN_ROUNDS}")
    rng = np.random.default_rng(seed)
    sums = np.zeros(rounds)
    for rows in table.partition_by("stratum", maintain_order=True):
        drawn = _resampled(rows, rng, rounds)
        if drawn is None:
            return None
        sums += drawn
    estimate = float((table["weight"] * table["value"]).sum())
    low, high = np.quantile(sums, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(estimate, float(low), float(high), "cluster")


def _resampled(rows: pl.DataFrame, rng: np.random.Generator, rounds: int) -> Any:
    """Share of one stratum in the weighed mean in each resample, [rounds]."""
    labels = np.unique(rows["cluster"].to_numpy(), return_inverse=True)[1]
    weight, value = rows["weight"].to_numpy(), rows["value"].to_numpy()
    mass, hit = np.bincount(labels, weight), np.bincount(labels, weight * value)
    n = len(mass)
    if n < MIN_CLUSTERS:
        return None
    step = max(1, _CHUNK // n)
    parts = []
    for start in range(0, rounds, step):
        drawn = rng.integers(n, size=(min(step, rounds - start), n), dtype=np.int32)
        parts.append(weight.sum() * hit[drawn].sum(1) / mass[drawn].sum(1))
    return np.concatenate(parts)
