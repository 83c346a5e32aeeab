"""How good a calibrated alarm and the early stop are on runs that neither was made from."""

from typing import Any

import numpy as np
import polars as pl

from preflow.distil.early_stopping import EarlyStop, recovered, replayed
from preflow.distil.monitor import SIGNALS, Alarm
from preflow.evaluation import auroc


def alarm_evaluation(found: pl.DataFrame, alarm: Alarm, *, control: str) -> dict[str, Any]:
    """Of the rows of `signals`, by regime: `runs`, `alarms` (share) and, beside the control's runs, `auroc` by signal.

    The control's own `alarms` are false ones. A column `golden_deviation`, where there is one, counts as a signal too.
    """
    larger = SIGNALS | {"golden_deviation": True}
    names = [name for name in larger if name in found.columns]
    base = found.filter(pl.col("regime") == control)
    result: dict[str, Any] = {}
    for (regime,), part in found.group_by("regime", maintain_order=True):
        row: dict[str, Any] = {"runs": len(part), "alarms": float(alarm.raised(part).mean())}  # type: ignore[arg-type]
        if regime != control:
            row["auroc"] = {
                name: auroc(
                    (1 if larger[name] else -1) * np.r_[part[name].to_numpy(), base[name].to_numpy()],
                    np.r_[np.ones(len(part)), np.zeros(len(base))],
                )
                for name in names
            }
        result[str(regime)] = row
    return result


def stop_evaluation(
    curves: pl.DataFrame, alarm: Alarm, *, slope_share: float
) -> dict[str, dict[str, float | int | None]]:
    """By regime: `runs`, `stopped`, and over all its runs the mean golden rise that was `avoidable` and `recovered`.

    Both are in nats a response; `share` is the second over the first, null where no run has a rise. Without an oracle
    all three are null.
    """
    result: dict[str, dict[str, float | int | None]] = {}
    for (regime,), part in curves.group_by("regime", maintain_order=True):
        runs = part.sort("seed", "update").partition_by("seed", maintain_order=True)
        stop = {"ratio_below": alarm.ratio_below, "slope_share": slope_share}
        stops = [replayed(run, EarlyStop(**stop)) for run in runs]
        counts = {"runs": len(runs), "stopped": sum(at is not None for at in stops)}
        result[str(regime)] = counts | _worth(runs, stops)
    return result


def _worth(runs: list[pl.DataFrame], stops: list[int | None]) -> dict[str, float | None]:
    if any(run["golden"].null_count() for run in runs):
        return dict.fromkeys(("avoidable", "recovered", "share"))
    gained, avoidable = np.array([recovered(run, at) for run, at in zip(runs, stops, strict=True)]).T
    return {
        "avoidable": float(avoidable.mean()),
        "recovered": float(gained.mean()),
        "share": float(gained.sum() / avoidable.sum()) if avoidable.sum() > 0 else None,
    }
