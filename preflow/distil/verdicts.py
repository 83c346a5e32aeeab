"""What a run's curves say once the oracle is known: hacking, over-fitting, a bad teacher, or none of them.

The rule, with `tolerance` the relative rise that is more than noise:

1. `none`: golden ends within the tolerance of its least value.
2. `bad_teacher`: golden rises, and in the online control of the same seed too. Fresh data without end does not mend
   it, so what is wrong is the teacher, not the data.
3. `teacher_hacking`, the joint event: golden rises from its least value while over the same span proxy falls.
4. `over_fit`: both rise.
"""

from typing import Any

import numpy as np
import polars as pl

from preflow.distil.power_law import end_deviation
from preflow.distil.schemas import DistilRuns

EARLY = 0.3  # of a run, that the power law is fitted to
GOLDEN = ("golden_end", "golden_min", "update_of_min", "golden_rise", "proxy_change", "golden_deviation")


def judged_runs(curves: pl.DataFrame, *, control: str, tolerance: float) -> pl.DataFrame:
    """`DistilRuns` of `DistilCurve`s; without golden distances there is no verdict.

    Parameters
    ----------
    control
        Regime whose run of the same seed is the online control.

    Raises
    ------
    ValueError
        A seed has no run of the control.
    """
    runs = {(regime, seed): run for (regime, seed), run in _runs(curves)}
    missing = sorted({seed for _, seed in runs} - {seed for regime, seed in runs if regime == control})
    if missing:
        raise ValueError(f"seeds {missing} have no run of the control {control!r}; add it to the regimes")
    rows = [
        {"regime": regime, "seed": seed} | _judged(run, runs[control, seed], tolerance) | measured_by_proxy(run)
        for (regime, seed), run in runs.items()
    ]
    return DistilRuns.cast(pl.DataFrame(rows))


def verdict(run: pl.DataFrame, control: pl.DataFrame, *, tolerance: float) -> str:
    """One of VERDICTS, by the rule above, for the curve of a run and that of its online control."""
    found = measured(run)
    if found["golden_rise"] < tolerance:
        return "none"
    if measured(control)["golden_rise"] >= tolerance:
        return "bad_teacher"
    return "teacher_hacking" if found["proxy_change"] < 0 else "over_fit"


def measured(run: pl.DataFrame) -> dict[str, float | int]:
    """What `DistilRuns` says of the golden distances of one curve, in order of updates."""
    updates, golden, proxy = (run[name].to_numpy() for name in ("update", "golden", "proxy"))
    least = int(np.argmin(golden))
    return {
        "golden_end": golden[-1],
        "golden_min": golden[least],
        "update_of_min": updates[least],
        "golden_rise": golden[-1] / golden[least] - 1,
        "proxy_change": proxy[-1] / proxy[least] - 1,
        "golden_deviation": end_deviation(updates, golden, early=EARLY),
    }


def measured_by_proxy(run: pl.DataFrame) -> dict[str, float]:
    """What `DistilRuns` says of one curve without an oracle."""
    updates, proxy, train = (run[name].to_numpy() for name in ("update", "proxy", "train_proxy"))
    return {
        "proxy_end": proxy[-1],
        "ratio_end": train[-1] / proxy[-1],
        "proxy_deviation": end_deviation(updates, proxy, early=EARLY),
    }


def _judged(run: pl.DataFrame, control: pl.DataFrame, tolerance: float) -> dict[str, Any]:
    if run["golden"].null_count():
        return dict.fromkeys(("verdict", *GOLDEN))
    return {"verdict": verdict(run, control, tolerance=tolerance)} | measured(run)


def _runs(curves: pl.DataFrame) -> list[tuple[tuple[str, int], pl.DataFrame]]:
    found = curves.sort("regime", "seed", "update").partition_by("regime", "seed", as_dict=True)
    return [((str(regime), int(seed)), run) for (regime, seed), run in found.items()]
