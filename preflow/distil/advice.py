"""Which remedy to take: measured beside a baseline regime, and the cheapest of those that help."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from preflow.distil.monitor import Alarm, run_signals
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.schemas import RemedyEffects
from preflow.distil.seed_intervals import mean_over_seeds


@dataclass(frozen=True)
class Advice:
    """What to do."""

    remedy: str | None
    """Regime to go over to; None where none of those measured helps."""
    cost: float | None
    """In teacher responses."""
    text: str


def remedy_effects(
    curves: pl.DataFrame, baseline: Regime, remedies: list[Regime], recipe: Recipe, alarm: Alarm
) -> pl.DataFrame:
    """`RemedyEffects` of runs, paired by seed with those of the baseline; without an oracle golden is null.

    Raises
    ------
    ValueError
        A remedy has fewer than two seeds in common with the baseline.
    """
    ends = curves.sort("update").group_by("regime", "seed").last()
    base = ends.filter(pl.col("regime") == baseline.name).select("seed", "golden", "proxy")
    rows = []
    for remedy in remedies:
        pairs = ends.filter(pl.col("regime") == remedy.name).join(base, on="seed", suffix="_base").sort("seed")
        if len(pairs) < 2:
            raise ValueError(f"{remedy.name} and {baseline.name} have {len(pairs)} seeds in common; run two or more")
        rows.append(
            {
                "remedy": remedy.name,
                "seeds": len(pairs),
                "teacher_responses": remedy.teacher_responses(recipe.batch_size),
                "more_prompts": max(0, remedy.prompts - baseline.prompts),
                "alarms": _alarms(curves.filter(pl.col("regime") == remedy.name), alarm),
            }
            | _change(pairs, "golden")
            | _change(pairs, "proxy")
        )
    return RemedyEffects.cast(pl.DataFrame(rows, schema_overrides=dict.fromkeys(_GOLDEN, pl.Float64)))


_GOLDEN = ("golden_change", "golden_low", "golden_high")


def advice(effects: pl.DataFrame, *, prompt_cost: float) -> Advice:
    """The cheapest remedy whose distance to the oracle falls, the interval wholly below 0; to the teacher without one.

    Parameters
    ----------
    prompt_cost
        What a further prompt costs, in teacher responses.
    """
    name = "proxy" if effects["golden_change"].null_count() else "golden"
    costs = effects.with_columns(cost=pl.col("teacher_responses") + prompt_cost * pl.col("more_prompts"))
    helpful = costs.filter(pl.col(f"{name}_high") < 0).sort("cost", "remedy")
    if helpful.is_empty():
        return Advice(None, None, f"None of {len(effects)} remedies lowers the {name} distance for sure; stop early.")
    best = helpful.row(0, named=True)
    change, low, high = (100 * np.expm1(best[f"{name}_{part}"]) for part in ("change", "low", "high"))
    text = (
        f"Take {best['remedy']}: {name} distance {change:+.0f} % [{low:+.0f}, {high:+.0f}] over {best['seeds']} seeds, "
        f"for {best['teacher_responses']} teacher responses and {best['more_prompts']} more prompts; "
        f"the alarm goes off in {best['alarms']:.0%} of its runs."
    )
    return Advice(best["remedy"], float(best["cost"]), text)


def _change(pairs: pl.DataFrame, name: str) -> dict[str, float | None]:
    parts = ("change", "low", "high")
    if pairs[name].null_count() or pairs[f"{name}_base"].null_count():
        return dict.fromkeys((f"{name}_{part}" for part in parts), None)
    found = mean_over_seeds(np.log(pairs[name].to_numpy() / pairs[f"{name}_base"].to_numpy()))
    return dict(zip((f"{name}_{part}" for part in parts), (found.estimate, found.low, found.high), strict=True))


def _alarms(curves: pl.DataFrame, alarm: Alarm) -> float:
    runs = curves.sort("update").partition_by("seed")
    return float(np.mean([run_signals(run)["log_ratio"] < np.log(alarm.ratio_below) for run in runs]))
