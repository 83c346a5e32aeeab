"""What the runs of a group say, as JSON-ready numbers and as the rows of its charts."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from preflow.distil.advice import advice, remedy_effects
from preflow.distil.alarm_evaluation import alarm_evaluation, stop_evaluation
from preflow.distil.monitor import signals
from preflow.distil.power_law import log_log_r2
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.runs import Watch
from preflow.distil.schemas import VERDICTS
from preflow.distil.seed_intervals import mean_over_seeds

MEASURES = (
    "golden_end", "golden_rise", "proxy_change", "golden_deviation", "proxy_end", "ratio_end", "proxy_deviation",
)  # fmt: skip


def hacking_report(
    curves: pl.DataFrame,
    epochs: pl.DataFrame,
    judged: pl.DataFrame,
    regimes: Sequence[Regime],
    recipe: Recipe,
    watch: Watch,
    *,
    baseline: str,
    prompt_cost: float,
) -> dict[str, Any]:
    """All that is said of the runs of some regimes; without an oracle what needs golden distances is null.

    Parameters
    ----------
    judged
        That of `judged_runs`.
    baseline
        Regime beside which the offline data of others, and online data, are remedies.
    prompt_cost
        See `advice`.

    Returns
    -------
    `oracle`, whether there is one; `control` and `baseline`; `regimes`, see `regime_summary`, with the mean diversity
    of the first draw; `alarm` and `alarms`, see `Alarm` and `alarm_evaluation`; `stops`, see `stop_evaluation`;
    `remedies`, rows of `RemedyEffects`; `advice`; `bands`, rows of `curve_bands`.
    """
    alarm = watch.alarm(curves, epochs, regimes, recipe)
    base = next(regime for regime in regimes if regime.name == baseline)
    others = [regime for regime in regimes if regime.name != baseline]
    effects = remedy_effects(curves, base, others, recipe, alarm)
    summary = regime_summary(judged, curves)
    drawn = epochs.filter(epoch=0).group_by("regime").agg(pl.mean("distinct_responses", "distinct_2", "overlap_2"))
    for row in drawn.iter_rows(named=True):
        summary[row.pop("regime")]["diversity"] = row
    return {
        "oracle": not curves["golden"].null_count(),
        "control": watch.control,
        "baseline": baseline,
        "regimes": summary,
        "alarm": asdict(alarm),
        "alarms": alarm_evaluation(signals(curves, epochs, list(regimes), recipe), alarm, control=watch.control),
        "stops": stop_evaluation(curves, alarm, slope_share=watch.slope_share),
        "remedies": effects.to_dicts(),
        "advice": asdict(advice(effects, prompt_cost=prompt_cost)),
        "bands": curve_bands(curves).to_dicts(),
    }


def regime_summary(judged: pl.DataFrame, curves: pl.DataFrame) -> dict[str, Any]:
    """By regime: seeds, verdicts, the MEASURES of `DistilRuns` with intervals over seeds, R^2 of golden's power law."""
    summary = {}
    for (regime,), part in judged.group_by("regime", maintain_order=True):
        runs = curves.filter(pl.col("regime") == regime).sort("update").partition_by("seed")
        summary[str(regime)] = {
            "seeds": len(part),
            "verdicts": {name: int((part["verdict"] == name).sum()) for name in VERDICTS},
            "golden_r2": _over_seeds(pl.Series([_r2(run) for run in runs])),
        } | {name: _over_seeds(part[name]) for name in MEASURES}
    return summary


def curve_bands(curves: pl.DataFrame) -> pl.DataFrame:
    """Mean over seeds with its 95 % interval by regime, update and `distance`: golden, proxy, train_proxy or ratio.

    Without an oracle there are no golden rows. A run that was stopped is not in the means of what came after.
    """
    names = ["golden", "proxy", "train_proxy", "ratio"]
    long = (
        curves.with_columns(ratio=pl.col("train_proxy") / pl.col("proxy"))
        .unpivot(names, index=["regime", "seed", "update"], variable_name="distance")
        .drop_nulls("value")
    )
    rows = []
    groups = long.sort("regime", "distance", "update").group_by("regime", "distance", "update", maintain_order=True)
    for (regime, distance, update), part in groups:
        if len(part) > 1:
            found = mean_over_seeds(part["value"].to_numpy())
            bands = {"mean": found.estimate, "low": found.low, "high": found.high}
            rows.append({"regime": regime, "distance": distance, "update": update} | bands)
    return pl.DataFrame(rows)


def _r2(run: pl.DataFrame) -> float | None:
    if run["golden"].null_count():
        return None
    return log_log_r2(run["update"].to_numpy(), run["golden"].to_numpy())


def _over_seeds(values: pl.Series) -> dict[str, Any] | None:
    return None if values.null_count() else asdict(mean_over_seeds(values.to_numpy()))
