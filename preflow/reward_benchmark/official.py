"""Scores of published benchmarks as their authors weigh them, and pooled; a tie is wrong, and is counted.

What scripts around the benchmarks get wrong: RewardBench counts math-prm as 984 pairs (447 in the file) so that
mathematics and code weigh alike; RM-Bench averages within a domain before it averages over difficulties.
"""

from typing import Any

import numpy as np
import polars as pl

from preflow.evaluation import bootstrap_interval

MATH_PRM = 984
"""What math-prm counts for, whatever the number of its pairs."""


def official_scores(items: pl.DataFrame, margins: np.ndarray, *, rounds: int, seed: int) -> dict[str, Any]:
    """By benchmark: `overall` as its authors have it, by group and subset, `pooled` with an interval, ties and unread.

    Parameters
    ----------
    items
        `BenchmarkItems`.
    margins
        Reward of chosen less that of rejected, [n]; NaN where a text could not be read: left out, and counted.
    """
    table = items.with_columns(margin=pl.Series(margins)).with_columns(right=pl.col("margin") > 0)
    return {
        str(name): _scores(str(name), rows, rounds=rounds, seed=seed)
        for (name,), rows in table.partition_by("benchmark", as_dict=True, maintain_order=True).items()
    }


def _scores(benchmark: str, rows: pl.DataFrame, *, rounds: int, seed: int) -> dict[str, Any]:
    read = rows.filter(pl.col("margin").is_not_nan())
    counts = {"n": len(read), "ties": int((read["margin"] == 0).sum()), "not_read": len(rows) - len(read)}
    if read.is_empty():
        return counts | {"overall": None}
    pooled = bootstrap_interval(
        read["right"].to_numpy().astype(float), read["item"].to_numpy(), rounds=rounds, seed=seed
    )
    groups = rm_bench_groups(read) if benchmark == "rm_bench" else _weighed_groups(read)
    overall = float(np.mean([group["accuracy"] for group in groups.values()]))
    return counts | {"overall": overall, "pooled": vars(pooled), "groups": groups}


def _weighed_groups(read: pl.DataFrame) -> dict[str, Any]:
    """Accuracy of each group: of its subsets, by their number of pairs, but for math-prm."""
    subsets = read.group_by("group", "subset").agg(pl.len().alias("n"), accuracy=pl.col("right").mean())
    weight = pl.when(pl.col("subset") == "math-prm").then(MATH_PRM).otherwise("n")
    found: dict[str, Any] = {}
    for (group,), rows in (
        subsets.with_columns(weight=weight)
        .sort("group", "subset")
        .partition_by("group", as_dict=True, maintain_order=True)
        .items()
    ):
        accuracy = np.average(rows["accuracy"].to_numpy(), weights=rows["weight"].to_numpy())
        found[str(group)] = {"accuracy": float(accuracy), "subsets": rows.select("subset", "n", "accuracy").to_dicts()}
    return found


def rm_bench_groups(read: pl.DataFrame) -> dict[str, Any]:
    """Accuracy of each domain by difficulty, and their mean; the two kinds of safety weigh alike."""
    kind = read.with_columns(kind=pl.col("part").str.split(" ").list.last())
    cells = kind.group_by("group", "kind", "subset").agg(pl.col("right").mean())
    domains = cells.group_by("group", "subset").agg(pl.col("right").mean()).sort("group", "subset")
    return {
        str(group): {
            "accuracy": float(np.mean(rows["right"].to_numpy())),
            "subsets": [
                {"subset": subset, "accuracy": right} for subset, right in rows.select("subset", "right").rows()
            ],
        }
        for (group,), rows in domains.partition_by("group", as_dict=True, maintain_order=True).items()
    }
