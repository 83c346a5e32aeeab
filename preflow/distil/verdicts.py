"""What a run's curves say once the oracle is known: hacking, over-fitting, a bad teacher, or none of them.

The rule, with `tolerance` the relative rise that is more than noise:

1. `none`: golden ends within the tolerance of its least value.
2. `bad_teacher`: golden rises, and in the online control of the same seed too. Fresh data without end does not mend
   it, so what is wrong is the teacher, not the data.
3. `teacher_hacking`, the joint event: golden rises from its least value while over the same span proxy falls.
4. `over_fit`: both rise.
"""

import numpy as np
import polars as pl

from preflow.distil.power_law import end_deviation
from preflow.distil.schemas import DistilRuns

EARLY = 0.3  # of a run, that the power law is fitted to


def judged_runs(curves: pl.DataFrame, *, control: str, tolerance: float) -> pl.DataFrame:
    """`DistilRuns` of `DistilCurve`s with golden distances.

    Parameters
    ----------
    control
        Regime whose run of the same seed is the online control.

    Raises
    ------
    ValueError
        A run has no golden distance, or its seed has no run of the control.
    """
    if curves["golden"].null_count():
        raise ValueError("a verdict needs golden distances; without an oracle use the monitor's alarm")
    runs = {(regime, seed): run for (regime, seed), run in _runs(curves)}
    missing = sorted({seed for _, seed in runs} - {seed for regime, seed in runs if regime == control})
    if missing:
        raise ValueError(f"seeds {missing} have no run of the control {control!r}; add it to the regimes")
    rows = [
        {"regime": regime, "seed": seed, "verdict": verdict(run, runs[control, seed], tolerance=tolerance)}
        | measured(run)
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
    """The numbers of `DistilRuns` of one curve, in order of updates."""
    updates, golden, proxy, train = (run[name].to_numpy() for name in ("update", "golden", "proxy", "train_proxy"))
    least = int(np.argmin(golden))
    return {
        "golden_end": golden[-1],
        "golden_min": golden[least],
        "update_of_min": updates[least],
        "golden_rise": golden[-1] / golden[least] - 1,
        "proxy_change": proxy[-1] / proxy[least] - 1,
        "proxy_end": proxy[-1],
        "ratio_end": train[-1] / proxy[-1],
        "golden_deviation": end_deviation(updates, golden, early=EARLY),
        "proxy_deviation": end_deviation(updates, proxy, early=EARLY),
    }


def _runs(curves: pl.DataFrame) -> list[tuple[tuple[str, int], pl.DataFrame]]:
    found = curves.sort("regime", "seed", "update").partition_by("regime", "seed", as_dict=True)
    return [((str(regime), int(seed)), run) for (regime, seed), run in found.items()]
