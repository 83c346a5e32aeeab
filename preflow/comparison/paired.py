"""Two policies measured on the same items: paired rows, their interval, an exact test, many tests at once.

The unit is the prompt. What holds here holds for these trained policies on further prompts; whether a treatment gains
whenever one trains anew, on other data and from other seeds, only a study over several worlds can say.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import permutation_test, spearmanr
from statsmodels.stats.multitest import multipletests

from preflow.evaluation import Interval

BASELINE = "untreated"
"""Plain training on all pairs: what every treatment has to beat."""
SIGNIFICANT = 0.05
SIGN_FLIPS = 9_999  # drawn where 2 ** prompts is more

_BATCH = 500
Record = dict[str, Any]


def against_baseline(treatments: Iterable[str]) -> list[tuple[str, str]]:
    """Every other treatment with BASELINE, in alphabetical order.

    Raises
    ------
    ValueError
        There is no such policy.
    """
    names = sorted(set(treatments))
    if BASELINE not in names:
        raise ValueError(f"no policy {BASELINE!r} to compare with, only {names}: train on all pairs too")
    return [(name, BASELINE) for name in names if name != BASELINE]


def paired_differences(values: pl.DataFrame, treatment: str, baseline: str) -> pl.DataFrame:
    """Value of `treatment` minus value of `baseline` on the same seed, prompt and item, over the seeds of both.

    Parameters
    ----------
    values
        `treatment`, `seed`, `prompt_group`, `item` (which response, which pair) and `value`, one row each.

    Returns
    -------
    `seed`, `prompt_group`, `item` and `difference`, in this order of rows.

    Raises
    ------
    ValueError
        They share no seed, or one of them lacks an item of the other.
    """
    keys = ["seed", "prompt_group", "item"]
    one, other = (values.filter(pl.col("treatment") == name).select(*keys, "value") for name in (treatment, baseline))
    seeds = sorted(set(one["seed"]) & set(other["seed"]))
    if not seeds:
        raise ValueError(f"{treatment} and {baseline} share no seed: train and sample both from the same seeds")
    rows = one.join(other, on=keys, how="full", suffix="_of_baseline", coalesce=True, validate="1:1")
    rows = rows.filter(pl.col("seed").is_in(seeds)).sort(keys)
    single = rows.filter(pl.any_horizontal(pl.col("value", "value_of_baseline").is_null()))
    if len(single):
        raise ValueError(
            f"{len(single)} of {len(rows)} items were measured for only one of {treatment} and {baseline}, first "
            f"prompt {single['prompt_group'][0]} of seed {single['seed'][0]}: measure both on the same prompts"
        )
    return rows.select(*keys, difference=pl.col("value") - pl.col("value_of_baseline"))


def sign_flip_test(differences: np.ndarray, clusters: Sequence[str] | np.ndarray, *, seed: int) -> float:
    """Two-sided p of the paired permutation test: under the null the sign of each cluster's sum is a fair coin's.

    Exact where few clusters differ, else with SIGN_FLIPS random draws. For outcomes of 0 or 1 with one row a cluster it
    is the exact McNemar test. `differences` is [n], `clusters` names the prompt of each, [n].
    """
    sums = np.bincount(np.unique(np.asarray(clusters), return_inverse=True)[1], differences)
    sums = sums[sums != 0]  # a zero keeps its place whatever its sign
    if len(sums) < 2:
        return 1.0
    test = permutation_test(
        (sums,), np.mean, permutation_type="samples", vectorized=True, n_resamples=SIGN_FLIPS, batch=_BATCH, rng=seed
    )
    return float(test.pvalue)


def with_holm(records: list[Record]) -> list[Record]:
    """The records with `p_adjusted` over all of them (Holm, 1979) and `separable`: whether that is below 0.05."""
    if not records:
        return []
    adjusted = multipletests([record["p_value"] for record in records], method="holm")[1]
    return [
        record | {"p_adjusted": float(p), "separable": bool(p < SIGNIFICANT)}
        for record, p in zip(records, adjusted, strict=True)
    ]


def rank_correlation(first: Sequence[float] | pl.Series, second: Sequence[float] | pl.Series) -> float | None:
    """Spearman's rank correlation; None where either is constant."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(spearmanr(first, second).statistic)


def named(interval: Interval, name: str) -> Record:
    """An interval as three flat entries: `name`, `name_low`, `name_high`."""
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}
