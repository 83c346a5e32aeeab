"""Preference pairs whose difficulty is a known dial, for energy models too small to learn the hard end.

A prompt is a dial t in [0, 1] and a taste c; a response y is a vector. Its utility is (1 - t) e(c, y) + t h(y): e is
linear in y, h = sin(OMEGA v . y) turns over too fast for the models used. Near t = 1 a pair is correct and still beyond
them. The model scores s(t, c, y) as an unnormalised log-probability; in a pair the normaliser cancels, so DPO applies.
With `taste_strength` 0 the linear direction is one for all prompts and few pairs teach it; above, it moves with c, so
that the easy part is itself short of data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from torch import Tensor

from preflow.fit import fit, mlp, shuffled_batches
from preflow.objectives import PairLogprobs, dpo
from preflow.treatments.difficulty import halves
from preflow.treatments.schemas import HeldOutLosses
from preflow.world.rows import preference_frame, preference_row

TASTES, RESPONSE, OMEGA = 4, 8, 12.0
INPUTS = 1 + TASTES + RESPONSE


@dataclass(frozen=True)
class GradedPairs:
    """`pairs` as `PreferencePairs`; for its rows, in this order, the inputs and what only the world knows."""

    pairs: pl.DataFrame
    inputs: Tensor
    """Inputs of chosen and rejected, [n, 2, INPUTS]."""
    dial: np.ndarray
    """Difficulty t, [n]."""
    flipped: np.ndarray
    """Whether chosen is really the worse one, [n]."""

    def rows(self, pair_ids: Sequence[str]) -> Tensor:
        """Row numbers of the pairs, in the order given."""
        place = {pair_id: row for row, pair_id in enumerate(self.pairs["pair_id"])}
        return torch.tensor([place[pair_id] for pair_id in pair_ids])


def draw_graded(n: int, *, flip_rate: float, taste_strength: float, world: int, seed: int) -> GradedPairs:
    """`n` pairs of the world number `world`; `flip_rate` of them, at random, have the worse response as chosen."""
    rng = np.random.default_rng(seed)
    dial, taste, y = rng.random(n), rng.normal(size=(n, TASTES)), rng.normal(size=(n, 2, RESPONSE))
    utility = _utility(dial, taste, y, taste_strength, np.random.default_rng(world))
    flipped = rng.random(n) < flip_rate
    first_chosen = (utility[:, 0] > utility[:, 1]) != flipped
    prompt = np.concatenate([dial[:, None], taste], axis=1)
    inputs = np.concatenate([np.repeat(prompt[:, None], 2, axis=1), y], axis=2)
    inputs = np.where(first_chosen[:, None, None], inputs, inputs[:, ::-1])
    rows = [
        preference_row(
            f"Item {i} of {seed}.", "One.", "Two.", chosen_is="a" if first_chosen[i] else "b",
            scores={"a": float(utility[i, 0]), "b": float(utility[i, 1])}, source="graded",
        )
        for i in range(n)
    ]  # fmt: skip
    order = np.argsort([row["pair_id"] for row in rows])
    return GradedPairs(
        preference_frame(rows), torch.tensor(inputs[order], dtype=torch.float32), dial[order], flipped[order]
    )


def _utility(
    dial: np.ndarray, taste: np.ndarray, y: np.ndarray, taste_strength: float, world: np.random.Generator
) -> np.ndarray:
    """Utility of each response, [n, 2]; both of its parts have variance 1."""
    base, turn, wave = world.normal(size=RESPONSE), world.normal(size=(TASTES, RESPONSE)), world.normal(size=RESPONSE)
    direction = base + taste_strength * taste @ turn
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    easy = np.einsum("nkd,nd->nk", y, direction)
    hard = np.sqrt(2) * np.sin(OMEGA * (y @ (wave / np.linalg.norm(wave))))
    return (1 - dial)[:, None] * easy + dial[:, None] * hard


@dataclass(frozen=True, kw_only=True)
class Training:
    """How an energy model is made and trained."""

    width: int
    beta: float
    lr: float
    epochs: int
    batch_size: int


class Energies:
    """A model with its frozen start as the DPO reference, so that every loss is ln 2 before training."""

    def __init__(self, world: GradedPairs, how: Training, *, seed: int) -> None:
        self.world, self.how, self.seed = world, how, seed
        self.model = mlp(INPUTS, how.width, how.width, 1, seed=seed)
        with torch.no_grad():
            self.reference = self.scores(world.inputs)

    def scores(self, inputs: Tensor) -> Tensor:
        """Unnormalised log-probabilities, [...], of inputs [..., INPUTS]."""
        return self.model(inputs)[..., 0]

    def losses(self, rows: Tensor) -> Tensor:
        """DPO losses of rows of the world, [n]."""
        scores, reference = self.scores(self.world.inputs[rows]), self.reference[rows]
        one = torch.ones(len(rows))
        pairs = PairLogprobs(scores[:, 0], one, scores[:, 1], one, reference[:, 0], reference[:, 1])
        return dpo(pairs, beta=self.how.beta, label_smoothing=0.0)

    def train(self, rows: Tensor, *, shuffle: bool) -> None:
        """Train on rows of the world, shuffled or in the order given."""
        fit(self.model, self.losses, self._batches(rows, shuffle=shuffle), lr=self.how.lr)

    def held_out(self, trained: Tensor, scored: Tensor, *, checkpoints: int) -> list[Tensor]:
        """Train on rows, shuffled; the losses of others, [m], at each of the equally spaced checkpoints.

        Raises
        ------
        ValueError
            There are fewer steps than checkpoints.
        """
        batches = self._batches(trained, shuffle=True)
        if len(batches) < checkpoints:
            raise ValueError(
                f"{len(batches)} steps cannot hold {checkpoints} checkpoints; train longer, or evaluate less"
            )
        stops = {len(batches) * at // checkpoints for at in range(1, checkpoints + 1)}
        losses: list[Tensor] = []

        @torch.no_grad()
        def after_step(step: int) -> None:
            if step in stops:
                losses.append(self.losses(scored))

        fit(self.model, self.losses, batches, lr=self.how.lr, after_step=after_step)
        return losses

    def _batches(self, rows: Tensor, *, shuffle: bool) -> list[Tensor]:
        epochs, size = self.how.epochs, self.how.batch_size
        if not shuffle:
            return [*rows.split(size)] * epochs
        return [rows[batch] for batch in shuffled_batches(len(rows), batch_size=size, epochs=epochs, seed=self.seed)]

    @torch.no_grad()
    def correct(self, test: GradedPairs) -> np.ndarray:
        """1 where the chosen response of `test` has the higher score, [n]."""
        scores = self.scores(test.inputs)
        return (scores[:, 0] > scores[:, 1]).numpy().astype(float)


def held_out_losses(world: GradedPairs, how: Training, *, seeds: Sequence[int], checkpoints: int) -> pl.DataFrame:
    """`HeldOutLosses` of every pair: per seed two runs, each trained on one half and evaluated on the other."""
    tables = []
    for seed in seeds:
        first, second = (world.rows(half) for half in halves(world.pairs["pair_id"].to_list(), seed=seed))
        for scored, trained in ((first, second), (second, first)):
            losses = Energies(world, how, seed=seed).held_out(trained, scored, checkpoints=checkpoints)
            ids = world.pairs["pair_id"].gather(scored.numpy())
            tables += [
                pl.DataFrame({"pair_id": ids, "seed": seed, "checkpoint": at, "loss": loss.double().numpy()})
                for at, loss in enumerate(losses, 1)
            ]
    return HeldOutLosses.cast(pl.concat(tables).sort("pair_id", "seed", "checkpoint"))
