"""When to stop a run whose alarm went off.

At the alarm itself the student still gains: it learns the responses faster than the teacher, and the teacher still.
The golden distance turns later, about where the held-out proxy leaves its power law: where the slope of log proxy in
log updates has passed its steepest. So a run is stopped once the alarm is on and the slope has fallen to a share of
its peak. Without the alarm an online run that converges is left to converge. Only where the held-out proxy itself
rises is there nothing to wait for: that is ordinary over-fitting, and the ratio does not show it in SFT, whose student
leaves the teacher on what it is trained on too.
"""

import numpy as np
import polars as pl

WINDOW = 4  # checkpoints that a slope is fitted to
OVER_FIT = 0.05  # rise of the held-out proxy over its least value that is no noise


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
        if self.stopped_at is None and (self._rises() or (self.alarmed_at is not None and self._bends())):
            self.stopped_at = step
        return self.stopped_at is not None

    def _rises(self) -> bool:
        least, last = min(proxy for _, proxy in self.seen), self.seen[-1][1]
        return last > least + float(np.log1p(OVER_FIT))

    def _bends(self) -> bool:
        """Whether the slope of the last WINDOW is below its share of the steepest one."""
        x, y = np.array(self.seen).T
        windows = (slice(at, at + WINDOW) for at in range(len(x) - WINDOW + 1))
        slopes = [-float(np.polyfit(x[window], y[window], 1)[0]) for window in windows]
        return bool(slopes) and slopes[-1] < self.slope_share * max(0.0, *slopes)


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
