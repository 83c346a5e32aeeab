"""Runs of a study: every regime with every seed, the online control first, so that its alarm can stop the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
import torch

from preflow.distil.divergences import FORWARD_KL
from preflow.distil.early_stopping import EarlyStop
from preflow.distil.family import Family
from preflow.distil.language import LanguageModel
from preflow.distil.monitor import Alarm, calibrated, signals
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.seeded import Seeded
from preflow.distil.seeds import generator
from preflow.distil.states import held_out_states
from preflow.distil.targets import truncation_error
from preflow.distil.training import Distilled, HeldOut, Monitor, distil

STORAGE_SAMPLE = 32  # prompts whose exact distributions are held at once


@dataclass(frozen=True, kw_only=True)
class Watch:
    """How runs are watched without an oracle."""

    control: str
    """Name of the online regime that the alarm is calibrated on."""
    false_alarm_rate: float
    slope_share: float
    """See `EarlyStop`."""

    def control_of(self, regimes: Sequence[Regime]) -> Regime:
        """The control among the regimes.

        Raises
        ------
        ValueError
            None of them is.
        """
        found = [regime for regime in regimes if regime.name == self.control]
        if not found:
            raise ValueError(f"the control {self.control!r} is none of {[regime.name for regime in regimes]}; name one")
        return found[0]

    def alarm(self, curves: pl.DataFrame, epochs: pl.DataFrame, regimes: Sequence[Regime], recipe: Recipe) -> Alarm:
        """Calibrated on the runs of the control."""
        control = signals(curves, epochs, [self.control_of(regimes)], recipe)
        return calibrated(control, false_alarm_rate=self.false_alarm_rate)

    def monitor(self, alarm: Alarm) -> EarlyStop:
        """A fresh callback for one run."""
        return EarlyStop(ratio_below=alarm.ratio_below, slope_share=self.slope_share)


@dataclass(frozen=True)
class Students:
    """Of each regime, the student of the first seed."""

    models: dict[str, LanguageModel]

    def save_pretrained(self, folder: Path) -> None:
        """Write each into a folder with the name of its regime."""
        for name, model in self.models.items():
            model.save_pretrained(folder / name)


@dataclass(frozen=True)
class Runs:
    """What came of the runs."""

    curves: pl.DataFrame
    """`DistilCurve`."""
    epochs: pl.DataFrame
    """`DistilEpochs`."""
    students: Students


@dataclass(frozen=True, kw_only=True)
class Study:
    """What all runs start from and are measured on, for each seed of the teacher."""

    family: Family
    data: pl.DataFrame
    """`OracleData`."""
    oracle: Seeded
    """Empty where there is none."""
    teacher: Seeded
    student: Seeded
    recipe: Recipe

    @cached_property
    def measured_on(self) -> dict[int, HeldOut]:
        """Held-out states by seed, stored as the recipe says; without an oracle there is no golden distance.

        Teacher and oracle sample with the same random numbers: from one model they draw the same responses.
        """
        found = {}
        for seed in self.teacher:
            prompts = self.family.prompts(self.data, seed=seed, split="validation")
            proxy, golden = (
                held_out_states(models[seed], prompts, generator=generator(seed, 4), top_k=self.recipe.top_k)
                if len(models)
                else None
                for models in (self.teacher, self.oracle)
            )
            assert proxy is not None  # it is a seed of the teacher
            found[seed] = HeldOut(proxy, golden)
        return found

    @torch.no_grad()
    def storage_error(self, *, top_k: int) -> dict[str, float]:
        """What storing `top_k` tokens of the teacher's distributions costs, on held-out prompts of the first seed.

        See `truncation_error`; the student is the start, the loss the forward KL.
        """
        seed = next(iter(self.teacher))
        prompts = self.family.prompts(self.data, seed=seed, split="validation")
        some = prompts[torch.arange(min(len(prompts), STORAGE_SAMPLE))]
        responses = self.teacher[seed].sample(some, generator(seed, 4))
        exact, own = (models[seed].logprobs(some, responses) for models in (self.teacher, self.student))
        return truncation_error(exact, own, responses.to(own.device), FORWARD_KL, top_k=top_k)

    def run(self, regime: Regime, *, seed: int, monitor: Monitor | None = None) -> Distilled:
        """One run of one seed."""
        prompts = self.family.prompts(self.data, seed=seed, split="distillation")
        measured_on, recipe = self.measured_on[seed], self.recipe
        teacher, student = self.teacher[seed], self.student[seed]
        return distil(student, teacher, prompts, regime, recipe, measured_on, seed=seed, monitor=monitor)

    def runs(self, regimes: Sequence[Regime], watch: Watch, *, stop: bool) -> Runs:
        """Every regime with every seed.

        Parameters
        ----------
        stop
            Stop a run at the alarm of the control's runs; the control itself is never stopped.

        Raises
        ------
        ValueError
            No regime has the name of the control, or to stop there are fewer than three seeds.
        """
        control = watch.control_of(regimes)
        found = {control.name: [self.run(control, seed=seed) for seed in self.teacher]}
        alarm = watch.alarm(*_tables(found[control.name]), regimes, self.recipe) if stop else None
        for regime in regimes:
            if regime is not control:
                monitors = {seed: watch.monitor(alarm) if alarm else None for seed in self.teacher}
                found[regime.name] = [self.run(regime, seed=seed, monitor=monitors[seed]) for seed in self.teacher]
        curves, epochs = _tables([run for name in found for run in found[name]])
        students = {name: runs[0].student for name, runs in found.items()}
        return Runs(curves, epochs, Students(students))


def _tables(runs: Sequence[Distilled]) -> tuple[pl.DataFrame, pl.DataFrame]:
    return pl.concat([run.curve for run in runs]), pl.concat([run.epochs for run in runs])
