"""The one loop of distillation, with the distances to oracle and teacher along the way."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch
from torch import Tensor

from preflow.distil.diversity import diversity
from preflow.distil.language import LanguageModel, require_same_vocabulary
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.schemas import DistilCurve, DistilEpochs
from preflow.distil.states import States, training_states
from preflow.fit import shuffled_batches


class Monitor(Protocol):
    """What may stop a run; it needs no oracle."""

    def update(self, step: int, train_proxy: float, validation_proxy: float) -> bool:
        """Whether to stop after this checkpoint."""


@dataclass(frozen=True)
class HeldOut:
    """What distances are measured on, prompts that nothing is trained on."""

    proxy: States
    """Of the teacher."""
    golden: States | None
    """Of the oracle, where there is one."""


@dataclass(frozen=True)
class Distilled:
    """What came of a run."""

    student: LanguageModel
    curve: pl.DataFrame
    """`DistilCurve`."""
    epochs: pl.DataFrame
    """`DistilEpochs`."""
    stopped: int | None
    """The update after which the monitor stopped it."""


def distil(
    student: LanguageModel,
    teacher: LanguageModel,
    prompts: Any,
    regime: Regime,
    recipe: Recipe,
    held_out: HeldOut,
    *,
    seed: int,
    monitor: Monitor | None = None,
) -> Distilled:
    """Train a copy of `student` on the first `regime.prompts` of the prompts; same arguments, same bytes.

    Raises
    ------
    ValueError
        There are too few prompts, more checkpoints than updates, or the two models have different vocabularies.
    """
    require_same_vocabulary(teacher, student)
    if len(prompts) < regime.prompts:
        raise ValueError(f"regime {regime.name!r} needs {regime.prompts} prompts and there are {len(prompts)}")
    if recipe.checkpoints > regime.updates:
        raise ValueError(f"{recipe.checkpoints} checkpoints do not fit into {regime.updates} updates; take fewer")
    run = _Run(
        deepcopy(student).requires_grad_(requires_grad=True),
        teacher,
        prompts[torch.arange(regime.prompts)],
        regime,
        recipe,
        held_out,
        seed,
    )
    run.measure(0)
    stops = {regime.updates * at // recipe.checkpoints for at in range(1, recipe.checkpoints + 1)}

    def after_step(step: int) -> bool:
        if step in stops:
            row = run.measure(step)
            if monitor is not None and monitor.update(step, row["train_proxy"], row["proxy"]):
                run.stopped = step
        return run.stopped is not None

    how: dict[str, Any] = {"steps": regime.updates, "batch_size": recipe.batch_size, "lr": recipe.lr}
    run.student.fit(run.losses, run.batches(), after_step=after_step, **how)
    named = {"regime": pl.lit(regime.name), "seed": pl.lit(seed)}
    curve, epochs = (pl.DataFrame(rows).with_columns(**named) for rows in (run.curve, run.epochs))
    return Distilled(run.student, DistilCurve.cast(curve), DistilEpochs.cast(epochs), run.stopped)


class _Run:
    """The state of a run: what is trained on now, and what was measured."""

    def __init__(
        self,
        student: LanguageModel,
        teacher: LanguageModel,
        prompts: Any,
        regime: Regime,
        recipe: Recipe,
        held_out: HeldOut,
        seed: int,
    ) -> None:
        self.student, self.teacher, self.prompts = student, teacher, prompts
        self.regime, self.recipe, self.held_out, self.seed = regime, recipe, held_out, seed
        self.curve: list[dict[str, Any]] = []
        self.epochs: list[dict[str, Any]] = []
        self.previous: set[str] = set()
        self.trained_on: list[Tensor] = []
        self.stopped: int | None = None
        self.states = self._draw(0)

    def losses(self, rows: Tensor) -> Tensor:
        """Of rows of what is trained on now; their distances are kept for `train_proxy`, which so costs no pass."""
        losses, distances = self.states.losses_and_distances(self.student, self.regime.loss, rows)
        self.trained_on.append(distances)
        return losses

    def batches(self) -> Iterator[Tensor]:
        """Rows of each update; online, the responses are drawn when the first batch of a pass is asked for."""
        left = self.regime.updates
        for epoch in count():
            if epoch and self.regime.online:
                self.states = self._draw(epoch)
            order, size = self._seed(epoch), self.recipe.batch_size
            for rows in shuffled_batches(len(self.states), batch_size=size, epochs=1, seed=order):
                yield rows
                left -= 1
                if not left:
                    return

    def measure(self, step: int) -> dict[str, Any]:
        """The distances after `step` updates; written down and returned."""
        golden = self.held_out.golden
        row = {
            "update": step,
            "golden": None if golden is None else _mean(golden.distances(self.student)),
            "proxy": _mean(self.held_out.proxy.distances(self.student)),
            "train_proxy": _mean(torch.cat(self.trained_on) if step else self.states.distances(self.student)),
        }
        self.trained_on.clear()
        self.curve.append(row)
        return row

    def _draw(self, epoch: int) -> States:
        states = training_states(
            self.teacher, self.student, self.prompts,
            generations=self.regime.generations, student_share=self.regime.student_share,
            top_k=self.recipe.top_k, generator=torch.Generator().manual_seed(self._seed(epoch)),
        )  # fmt: skip
        found = states.fingerprints()
        digest, new = sha256("".join(found).encode()).hexdigest()[:32], sum(one not in self.previous for one in found)
        self.previous = set(found)
        varied = diversity(states.responses, generations=self.regime.generations, orders=(2,))
        self.epochs.append({"epoch": epoch, "responses": digest, "new": new / len(found)} | varied)
        return states

    def _seed(self, epoch: int) -> int:
        return int(np.random.SeedSequence([self.seed, epoch]).generate_state(1)[0])


def _mean(values: Tensor) -> float:
    return float(values.double().mean())
