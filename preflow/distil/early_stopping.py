"""When to stop a run whose alarm went off.

At the alarm itself the student still gains: it learns the responses faster than the teacher, and the teacher still.
The golden distance turns later, about where the held-out proxy leaves its power law: where the slope of log proxy in
log updates has passed its steepest. So a run is stopped once the alarm is on and the slope has fallen to a share of
its peak. Without the alarm nothing is stopped: an online run that converges is left to converge.
"""

import numpy as np
import polars as pl

WINDOW = 4  # checkpoints that a slope is fitted to


class EarlyStop:
    """A callback for one run; make a new one for each.

    Parameters
    ----------
    ratio_below
        `Alarm.ratio_below`.
    slope_share
        Of the steepest slope so far, below which the run is stopped.

    Raises
    ------
    ValueError
        A setting is outside (0, 1).
    """

    def __init__(self, *, ratio_below: float, slope_share: float) -> None:
        if not (0 < ratio_below < 1 and 0 < slope_share < 1):
            raise ValueError(f"ratio_below {ratio_below} and slope_share {slope_share} must lie between 0 and 1")
        self.ratio_below, self.slope_share = ratio_below, slope_share
        self.alarmed_at: int | None = None
        self.stopped_at: int | None = None
        self.steepest = 0.0
        self.seen: list[tuple[float, float]] = []

    def update(self, step: int, train_proxy: float, validation_proxy: float) -> bool:
        """Whether to stop after `step` updates; to be told of every checkpoint in order, the start left out.

        Raises
        ------
        ValueError
            A step does not come after the last one, or a distance is not positive.
        """
        if step <= 0 or (self.seen and np.log(step) <= self.seen[-1][0]):
            raise ValueError(f"step {step} does not follow the last one; tell the callback every checkpoint in order")
        if not (train_proxy >= 0 and validation_proxy > 0):
            raise ValueError(f"distances {train_proxy}, {validation_proxy} at step {step} must be positive numbers")
        self.seen.append((float(np.log(step)), float(np.log(validation_proxy))))
        if self.alarmed_at is None and train_proxy < self.ratio_below * validation_proxy:
            self.alarmed_at = step
        if len(self.seen) < WINDOW:
            return False
        x, y = np.array(self.seen[-WINDOW:]).T
        slope = -float(np.polyfit(x, y, 1)[0])
        self.steepest = max(self.steepest, slope)
        if self.stopped_at is None and self.alarmed_at is not None and slope < self.slope_share * self.steepest:
            self.stopped_at = step
        return self.stopped_at is not None


def replayed(run: pl.DataFrame, stop: EarlyStop) -> int | None:
    """The update at which `stop` would have stopped the run of this curve; None where it would not.

    A callback changes nothing in a run before it stops it, so that the curve up to there is that of the stopped run.
    """
    for step, train, proxy in (
        run.sort("update").filter(pl.col("update") > 0).select("update", "train_proxy", "proxy").rows()
    ):
        if stop.update(step, train, proxy):
            return int(step)
    return None


def recovered(run: pl.DataFrame, stopped: int | None) -> tuple[float, float]:
    """The golden rise that stopping avoided, negative where it stopped too early, and the rise that was avoidable."""
    run = run.sort("update")
    end = run["golden"][-1]
    at = end if stopped is None else run.filter(pl.col("update") == stopped)["golden"].item()
    return float(end - at), float(end - run["golden"].min())
