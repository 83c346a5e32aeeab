"""Intervals of weighed means: as wide as theory has them, and none where nothing can be told."""

import numpy as np
import polars as pl
import pytest

from preflow.reward_benchmark.stratified import stratified_interval


def table(sizes, shares, rng, chance=(0.5, 0.5)):
    parts = []
    for stratum, (n, share, p) in enumerate(zip(sizes, shares, chance, strict=True)):
        value = (rng.random(n) < p).astype(float)
        names = [f"{stratum} {i}" for i in range(n)]
        parts.append(pl.DataFrame({"value": value, "weight": share / n, "stratum": str(stratum), "cluster": names}))
    return pl.concat(parts)


def test_the_width_is_that_of_the_formula():
    rows = table((400, 100), (0.3, 0.7), np.random.default_rng(0))
    variances = [
        part["value"].to_numpy().var() / len(part) for part in rows.partition_by("stratum", maintain_order=True)
    ]
    expected = 2 * 1.96 * np.sqrt(0.3**2 * variances[0] + 0.7**2 * variances[1])
    found = stratified_interval(rows, rounds=4000, seed=0)
    assert found.estimate == pytest.approx((rows["weight"] * rows["value"]).sum())
    assert found.high - found.low == pytest.approx(expected, rel=0.08)
    assert found == stratified_interval(rows, rounds=4000, seed=0)


def test_the_truth_is_covered_and_a_pooled_mean_misses_it():
    """Coverage over 200 draws; the control, an interval of the plain mean, is of another number."""
    covered, pooled = 0, 0
    for seed in range(200):
        rows = table((300, 60), (0.5, 0.5), np.random.default_rng(seed), chance=(0.9, 0.3))
        found = stratified_interval(rows, rounds=2000, seed=seed)
        plain = rows["value"].to_numpy()
        half = 1.96 * plain.std() / np.sqrt(len(plain))
        covered += found.low <= 0.6 <= found.high
        pooled += plain.mean() - half <= 0.6 <= plain.mean() + half
    assert 0.90 <= covered / 200 <= 0.99
    assert pooled == 0


def test_rows_of_one_cluster_go_together():
    rng = np.random.default_rng(1)
    alone = table((40,), (1.0,), rng, chance=(0.5,))
    thrice = pl.concat([alone, alone, alone]).with_columns(pl.col("weight") / 3)
    one, other = (stratified_interval(rows, rounds=2000, seed=0) for rows in (alone, thrice))
    assert (other.low, other.high) == pytest.approx((one.low, one.high))


def test_few_clusters_have_no_interval_and_few_rounds_are_refused():
    rng = np.random.default_rng(0)
    assert stratified_interval(table((40, 9), (0.5, 0.5), rng), rounds=2000, seed=0) is None
    with pytest.raises(ValueError, match="100 bootstrap rounds are too few"):
        stratified_interval(table((40, 40), (0.5, 0.5), rng), rounds=100, seed=0)
