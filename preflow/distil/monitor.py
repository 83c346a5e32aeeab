"""An alarm for teacher hacking that needs no oracle, calibrated on online runs.

The golden distance is what a user does not have. What they have: the distance to the teacher on what is trained on and
on held-out prompts. With fresh responses the two go together; where their ratio falls below all that online runs show,
the student learns the responses and not the teacher. Proxy alone is a poor sign: compared with the power law of its
beginning it is *online* that ends lower, so it too is compared with online runs and not with the law.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from preflow.distil.power_law import end_deviation
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.seed_intervals import one_sided_bound
from preflow.distil.verdicts import EARLY

SIGNALS = {"log_ratio": False, "curvature": True, "fresh": False}
"""Name -> whether large values are the sign of hacking."""


def signals(curves: pl.DataFrame, epochs: pl.DataFrame, regimes: list[Regime], recipe: Recipe) -> pl.DataFrame:
    """The SIGNALS of each run of these regimes, a row each with `regime` and `seed`.

    Returns
    -------
    `log_ratio`: the least log(train_proxy / proxy) after the start. `curvature`: log of the last proxy over the power
    law of the first EARLY of the run. `fresh`: new responses over all that were trained on, with repeats.
    """
    rows = []
    for regime in regimes:
        named = pl.col("regime") == regime.name
        for (seed,), run in curves.filter(named).sort("update").group_by("seed", maintain_order=True):
            drawn = epochs.filter(named, pl.col("seed") == seed)
            rows.append(
                {"regime": regime.name, "seed": seed}
                | run_signals(run)
                | {"fresh": float(drawn["new"].sum()) / regime.passes(recipe.batch_size)}
            )
    return pl.DataFrame(rows)


def run_signals(run: pl.DataFrame) -> dict[str, float]:
    """`log_ratio` and `curvature` of one curve, in order of updates."""
    after = run.filter(pl.col("update") > 0)
    ratio = float(np.log(after["train_proxy"].to_numpy() / after["proxy"].to_numpy()).min())
    return {
        "log_ratio": ratio,
        "curvature": end_deviation(run["update"].to_numpy(), run["proxy"].to_numpy(), early=EARLY),
    }


@dataclass(frozen=True)
class Alarm:
    """Bounds that an online run passes with chance `false_alarm_rate` each; `ratio_below` is the alarm."""

    ratio_below: float
    """Bound of the least train_proxy / proxy."""
    curvature_above: float
    fresh_below: float
    false_alarm_rate: float
    runs: int
    """Online runs that the bounds come from."""

    def raised(self, found: pl.DataFrame) -> pl.Series:
        """Whether each of the runs of `signals` sets it off."""
        return (found["log_ratio"] < np.log(self.ratio_below)).alias("alarm")


def calibrated(online: pl.DataFrame, *, false_alarm_rate: float) -> Alarm:
    """The alarm from `signals` of online runs alone, taken as normal over runs; see `one_sided_bound`."""
    bounds = {
        name: one_sided_bound(online[name].to_numpy(), rate=false_alarm_rate, upper=upper)
        for name, upper in SIGNALS.items()
    }
    return Alarm(
        ratio_below=float(np.exp(bounds["log_ratio"])),
        curvature_above=bounds["curvature"],
        fresh_below=bounds["fresh"],
        false_alarm_rate=false_alarm_rate,
        runs=len(online),
    )
