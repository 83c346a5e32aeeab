"""Scores of published benchmarks as their authors weigh them, and pooled; a tie is wrong, and is counted.

After the authors' scripts. RewardBench (`rewardbench/constants.py`) weighs a subset by a fixed number: math-prm by 984
for 447 pairs, so that mathematics and code weigh alike. RM-Bench (`scripts/utils.py`) averages within a domain before
it averages over difficulties, and pools the two kinds of safety. The overall number of JudgeBench (`run_judge.py`) is
of all pairs, not a mean of its sources.
"""

from dataclasses import asdict
from math import fsum
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from preflow.evaluation import bootstrap_interval
from preflow.reward_benchmark.shapes import CATEGORY, DOMAINS, SOURCES
from preflow.reward_benchmark.stratified import stratified_interval

COUNTS = {
    "alpacaeval-easy": 100, "alpacaeval-length": 95, "alpacaeval-hard": 95, "mt-bench-easy": 28, "mt-bench-med": 40,
    "mt-bench-hard": 37, "llmbar-natural": 100, "llmbar-adver-neighbor": 134, "llmbar-adver-GPTInst": 92,
    "llmbar-adver-GPTOut": 47, "llmbar-adver-manual": 46, "refusals-dangerous": 100, "refusals-offensive": 100,
    "xstest-should-refuse": 250, "xstest-should-respond": 154, "donotanswer": 136, "math-prm": 984, "hep-cpp": 164,
    "hep-go": 164, "hep-java": 164, "hep-js": 164, "hep-python": 164, "hep-rust": 164,
}  # fmt: skip
"""What a subset of RewardBench counts for within its category, whatever the number of its pairs."""

PARTS: dict[str, tuple[str, set[str]]] = {
    "reward_bench": ("subset", set(CATEGORY)),
    "rm_bench": ("group", set(DOMAINS.values())),
    "judge_bench": ("group", set(SOURCES.values())),
    "help_steer": ("group", {"HelpSteer"}),
}
"""The column and the values that a benchmark must have for its overall number to be the authors'."""
AVERAGED = ("reward_bench", "rm_bench")  # the groups weigh alike; in the others, the pairs do


def official_scores(items: pl.DataFrame, margins: np.ndarray, *, rounds: int, seed: int) -> dict[str, Any]:
    """By benchmark: `overall` as its authors have it, by group and subset, `pooled`, intervals, ties, what is unread.

    `overall` is None where `missing` names parts of the benchmark of which nothing was read: a mean of the others
    would not be the number that is published. `by_file` has it for each of several files. Neither the order of the
    rows nor how they were cut into batches matters.

    Parameters
    ----------
    items
        `BenchmarkItems`.
    margins
        Reward of chosen less that of rejected, [n]; NaN where a text could not be read: left out, and counted.

    Raises
    ------
    ValueError
        There is not one margin for each item.
    """
    if len(margins) != len(items):
        raise ValueError(f"{len(items)} items need a margin each; it got {len(margins)}")
    table = items.with_columns(margin=pl.Series(margins, dtype=pl.Float64)).sort("benchmark", "file", "line", "part")
    return {
        str(name): _scores(str(name), rows, rounds=rounds, seed=seed)
        for (name,), rows in table.partition_by("benchmark", as_dict=True, maintain_order=True).items()
    }


def _scores(benchmark: str, rows: pl.DataFrame, *, rounds: int, seed: int) -> dict[str, Any]:
    read = _weighed(benchmark, rows.filter(pl.col("margin").is_not_nan()))
    counts = {"n": len(read), "ties": int((read["margin"] == 0).sum()), "not_read": len(rows) - len(read)}
    found: dict[str, Any] = counts | {"missing": _missing(benchmark, read), "overall": _overall(benchmark, read)}
    if read.is_empty():
        return found
    interval = None if found["missing"] else stratified_interval(read, rounds=rounds, seed=seed)
    pooled = bootstrap_interval(read["value"].to_numpy(), read["cluster"].to_numpy(), rounds=rounds, seed=seed)
    found |= {"overall_interval": interval and asdict(interval), "pooled": asdict(pooled), "groups": _groups(read)}
    if benchmark == "rm_bench":
        found["difficulty"] = _difficulty(found["groups"])
    if benchmark == "help_steer":
        found["spearman"] = _spearman(read)
    files = read.partition_by("file", as_dict=True, maintain_order=True)
    if len(files) > 1:
        found["by_file"] = {file: _overall(benchmark, _weighed(benchmark, part)) for (file,), part in files.items()}
    return found


def _weighed(benchmark: str, read: pl.DataFrame) -> pl.DataFrame:
    """With columns value (0 or 1), weight of the row in `overall`, and the stratum and cluster of the bootstrap."""
    table = read.with_columns(
        value=(pl.col("margin") > 0).cast(pl.Float64),
        stratum=pl.col("subset" if benchmark == "reward_bench" else "group"),
        cluster=pl.col("prompt").list.last().struct.field("content"),
    )
    if benchmark not in AVERAGED:
        return table.with_columns(weight=1 / pl.len())
    count = pl.col("subset").replace_strict(COUNTS, default=1.0, return_dtype=pl.Float64)
    of_row = count / pl.len().over("group", "subset")
    return table.with_columns(weight=of_row / of_row.sum().over("group") / pl.col("group").n_unique())


def _missing(benchmark: str, read: pl.DataFrame) -> list[str]:
    column, parts = PARTS[benchmark]
    return sorted(parts - set(read[column]))


def _overall(benchmark: str, read: pl.DataFrame) -> float | None:
    return None if _missing(benchmark, read) else _mean(read)


def _mean(rows: pl.DataFrame) -> float:
    """Weighed accuracy; summed without rounding, so that all right is 1 to the last bit."""
    return fsum(rows["weight"] * rows["value"]) / fsum(rows["weight"])


def _groups(read: pl.DataFrame) -> dict[str, Any]:
    """Accuracy of each group as it is weighed, and of its subsets."""
    found: dict[str, Any] = {}
    ordered = read.sort("group", maintain_order=True)
    for (group,), rows in ordered.partition_by("group", as_dict=True, maintain_order=True).items():
        subsets = rows.group_by("subset").agg(n=pl.len(), accuracy=pl.col("value").mean()).sort("subset")
        found[str(group)] = {"accuracy": _mean(rows), "subsets": subsets.to_dicts()}
    return found


def _difficulty(groups: dict[str, Any]) -> dict[str, float]:
    """Mean over domains of each difficulty of RM-Bench."""
    rows = [row for group in groups.values() for row in group["subsets"]]
    names = ("easy", "normal", "hard")
    return {name: float(np.mean([row["accuracy"] for row in rows if row["subset"] == name])) for name in names}


def _spearman(read: pl.DataFrame) -> float | None:
    """Rank correlation of the margin with the difference in helpfulness, each pair taken both ways round.

    None where all margins are zero.
    """
    margin, strength = read["margin"].to_numpy(), read["strength"].to_numpy()
    if not margin.any():
        return None
    return float(spearmanr(np.r_[margin, -margin], np.r_[strength, -strength]).statistic)
