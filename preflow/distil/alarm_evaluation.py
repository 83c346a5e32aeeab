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

    Both are in nats a response; `share` is the second over the first, null where no run has a rise.
    """
    result: dict[str, dict[str, float | int | None]] = {}
    for (regime,), part in curves.group_by("regime", maintain_order=True):
        rows = []
        for run in part.sort("seed", "update").partition_by("seed", maintain_order=True):
            at = replayed(run, EarlyStop(ratio_below=alarm.ratio_below, slope_share=slope_share))
            rows.append((at is not None, *recovered(run, at)))
        stopped, gained, avoidable = np.array(rows, dtype=float).T
        result[str(regime)] = {
            "runs": len(rows),
            "stopped": int(stopped.sum()),
            "avoidable": float(avoidable.mean()),
            "recovered": float(gained.mean()),
            "share": float(gained.sum() / avoidable.sum()) if avoidable.sum() > 0 else None,
        }
    return result
