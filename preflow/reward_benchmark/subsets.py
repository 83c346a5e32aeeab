"""Rewards on the parts of one table, and whether two of them differ on the same rows."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from statsmodels.stats.multitest import multipletests

from preflow.evaluation import bootstrap_interval, correctness, mcnemar, paired_bootstrap

MIN_PAIRS = 10  # below, an interval says nothing


def accuracy_by_subset(
    pairs: pl.DataFrame, margins: Mapping[str, np.ndarray], column: str, *, rounds: int, seed: int
) -> dict[str, Any]:
    """`subsets`: accuracy of each reward by value of a column; `differences`: every two rewards on each.

    A tie in reward counts half. p-values are McNemar's with Holm's correction over all subsets and pairs of rewards.

    Parameters
    ----------
    pairs
        Columns prompt_group, over which the intervals are, and `column`.
    margins
        By reward, its margin of chosen over rejected, [n]; NaN where it read nothing.

    Raises
    ------
    ValueError
        The column does not exist, has nulls, or a reward has not one margin a pair.
    """
    if column not in pairs.columns or pairs[column].null_count():
        raise ValueError(f"column {column!r} is missing or has nulls; choose one of {', '.join(pairs.columns)}")
    for name, margin in margins.items():
        if len(margin) != len(pairs):
            raise ValueError(f"reward {name!r} has {len(margin)} margins for {len(pairs)} pairs; one a pair is needed")
    values = pairs[column].cast(pl.String)
    subsets: dict[str, Any] = {}
    compared: list[dict[str, Any]] = []
    for value in values.unique().sort():
        of = (values == value).to_numpy()
        groups, part = pairs["prompt_group"].to_numpy()[of], {name: margin[of] for name, margin in margins.items()}
        accuracy = {name: _accuracy(margin, groups, rounds=rounds, seed=seed) for name, margin in part.items()}
        subsets[value] = {"n": int(of.sum()), "accuracy": accuracy}
        compared += [{"subset": value, **row} for row in differences(part, groups, rounds=rounds, seed=seed)]
    return {"subsets": subsets, "differences": with_holm(compared)}


def differences(
    margins: Mapping[str, np.ndarray], groups: np.ndarray, *, rounds: int, seed: int
) -> list[dict[str, Any]]:
    """Accuracy of the first of two rewards less that of the second, where both read a pair; p-values as they are."""
    found = []
    for one, other in combinations(margins, 2):
        both = np.isfinite(margins[one]) & np.isfinite(margins[other])
        if both.sum() < MIN_PAIRS:
            continue
        first, second = (correctness(margins[name][both]) for name in (one, other))
        interval = asdict(paired_bootstrap(first, second, groups[both], rounds=rounds, seed=seed))
        found.append({"first": one, "second": other, "n": int(both.sum()), **interval, **mcnemar(first, second)})
    return found


def with_holm(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows with p-values corrected for their number (Holm, 1979)."""
    corrected = multipletests([row["p_value"] for row in found], method="holm")[1] if found else []
    return [row | {"p_value": float(p)} for row, p in zip(found, corrected, strict=True)]


def _accuracy(margin: np.ndarray, groups: np.ndarray, *, rounds: int, seed: int) -> dict[str, Any] | None:
    read = np.isfinite(margin)
    if read.sum() < MIN_PAIRS:
        return None
    interval = bootstrap_interval(correctness(margin[read]), groups[read], rounds=rounds, seed=seed)
    return {"n": int(read.sum()), **asdict(interval)}
