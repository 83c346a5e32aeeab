"""What a study of concept losses says: the front of concept AUC against task accuracy, and paired tests of losses."""

import numpy as np
import polars as pl
from scipy.stats import ttest_rel
from statsmodels.stats.multitest import multipletests

GOALS = ("concept_auc", "task_accuracy")
SETTINGS = ("method", "loss", "lambda", "beta", "reduction", "samples")


def pareto_front(runs: pl.DataFrame) -> pl.DataFrame:
    """Mean over seeds of the GOALS by rate, checkpoint and setting, with standard errors, and `on_front`.

    On the front is what no other setting of its rate and checkpoint reaches in both goals and passes in one.
    """
    groups = ["rate", "checkpoint", *SETTINGS]
    means = [pl.col(goal).mean() for goal in GOALS]
    errors = [(pl.col(goal).std() / pl.len().sqrt()).alias(f"{goal}_se") for goal in GOALS]
    points = runs.group_by(groups).agg(*means, *errors, seeds=pl.len(), chosen=pl.col("chosen").sum()).sort(groups)
    parts = [part.with_columns(on_front=_on_front(part)) for part in points.partition_by("rate", "checkpoint")]
    return pl.concat(parts)


def _on_front(points: pl.DataFrame) -> pl.Series:
    goals = points.select(GOALS).to_numpy()
    at_least = (goals[None] >= goals[:, None]).all(2)
    above = (goals[None] > goals[:, None]).any(2)
    dominated = np.logical_and(at_least, above).sum(1) > 0
    return pl.Series(~dominated)


def paired_comparisons(runs: pl.DataFrame, *, baseline: str, checkpoint: str, metrics: tuple[str, ...]) -> pl.DataFrame:
    """The chosen runs of every method minus those of `baseline`, paired by seed, for each rate and metric.

    Returns
    -------
    `rate`, `method`, `metric`, `seeds`, `difference`, its `se`, `positive` (seeds above 0), `low` and `high` (95 % t
    interval), two-sided `p_value` of the paired t test, and `p_adjusted` over the methods of a rate and metric (Holm).

    Raises
    ------
    ValueError
        The baseline is not among the methods, or there are fewer than two seeds.
    """
    chosen = runs.filter(pl.col("chosen") & (pl.col("checkpoint") == checkpoint))
    if baseline not in chosen["method"]:
        raise ValueError(f"baseline {baseline!r} was not run; there are {chosen['method'].unique().sort().to_list()}")
    if chosen["seed"].n_unique() < 2:
        raise ValueError("a paired test takes at least two seeds; run more")
    tables = []
    for (rate,), part in chosen.group_by("rate", maintain_order=True):
        for metric in metrics:
            wide = part.pivot("method", index="seed", values=metric).sort("seed")
            rows = [_paired(wide, method, baseline) for method in wide.columns[1:] if method != baseline]
            tables += _with_holm([{"rate": rate, "metric": metric} | row for row in rows])
    return pl.DataFrame(tables)


def _paired(wide: pl.DataFrame, method: str, baseline: str) -> dict[str, float | int | str]:
    first, second = wide[method].to_numpy(), wide[baseline].to_numpy()
    both = np.isfinite(first) & np.isfinite(second)
    gaps = (first - second)[both]
    found: dict[str, float | int | str] = {"method": method, "seeds": len(gaps), "positive": int((gaps > 0).sum())}
    mean = float(gaps.mean()) if len(gaps) else float("nan")
    spread = float(gaps.std(ddof=1)) if len(gaps) > 1 else 0.0
    if spread < 1e-12:  # no seed differs from another, or no value at all: there is nothing to test
        return found | {
            "difference": mean,
            "se": 0.0,
            "low": mean,
            "high": mean,
            "p_value": float(mean == 0 or np.isnan(mean)),
        }
    test = ttest_rel(first[both], second[both])
    low, high = test.confidence_interval()
    return found | {
        "difference": mean,
        "se": spread / len(gaps) ** 0.5,
        "low": float(low),
        "high": float(high),
        "p_value": float(test.pvalue),
    }


def _with_holm(rows: list[dict]) -> list[dict]:
    if not rows:
        return []
    adjusted = multipletests([row["p_value"] for row in rows], method="holm")[1]
    return [row | {"p_adjusted": float(p)} for row, p in zip(rows, adjusted, strict=True)]
