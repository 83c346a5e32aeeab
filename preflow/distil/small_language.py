"""From an oracle to distilled students in the small language: the steps of the paper's figure 1, one function each.

Both the teacher and the student's start are fine-tuned on the same oracle responses, as in the paper; the student is
then distilled on other prompts. Every step does all seeds, and each seed has its own oracle, data and models.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from torch import Tensor

from preflow.distil.ngram import Language, NGram, random_oracle
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.schemas import SPLITS, OracleData
from preflow.distil.seeded import Seeded
from preflow.distil.states import held_out_states
from preflow.distil.supervised import sft
from preflow.distil.training import Distilled, HeldOut, Monitor, distil


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """How a model is made from oracle responses."""

    width: int
    epochs: int
    batch_size: int
    lr: float


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Prompts of each split."""

    oracle: int
    distillation: int
    validation: int


def oracles(language: Language, *, width: int, embedding: int, seeds: Sequence[int]) -> Seeded:
    """A random frozen oracle for each seed."""
    return Seeded(
        {seed: random_oracle(language, width=width, embedding=embedding, seed=_derived(seed, 0)) for seed in seeds}
    )


def oracle_data(oracle: Seeded, sizes: Sizes) -> pl.DataFrame:
    """`OracleData`: fresh prompts of each split with a response of the oracle; no split depends on another's size."""
    tables = []
    for seed in oracle:
        for part, split in enumerate(SPLITS):
            generator = _generator(seed, 10 + part)
            prompts = oracle[seed].language.draw_prompts(getattr(sizes, split), generator)
            columns = {"prompt": prompts.tolist(), "response": oracle[seed].sample(prompts, generator).tolist()}
            named = pl.DataFrame(columns).with_row_index("row").with_columns(seed=pl.lit(seed), split=pl.lit(split))
            tables.append(named)
    return OracleData.cast(pl.concat(tables))


def fine_tuned(data: pl.DataFrame, oracle: Seeded, how: FineTuning, *, role: int) -> Seeded:
    """A new model for each seed, fine-tuned on the oracle's responses: 1 is the role of the teacher, 2 of the student.

    Of the oracle it takes the language and the size of the embedding alone.
    """
    models = {}
    for seed in oracle:
        order = _derived(seed, 1 + role)
        start = NGram(oracle[seed].language, width=how.width, embedding=oracle[seed].embedding, seed=order)
        prompts, responses = split_of(data, seed, "oracle")
        models[seed] = sft(
            start, prompts, responses, epochs=how.epochs, batch_size=how.batch_size, lr=how.lr, seed=order
        ).requires_grad_(requires_grad=False)
    return Seeded(models)


TEACHER, STUDENT = 1, 2


def held_out(data: pl.DataFrame, oracle: NGram | None, teacher: NGram, *, seed: int) -> HeldOut:
    """What one seed's students are measured on; without an oracle there is no golden distance.

    Both sample with the same random numbers: from one model they draw the same responses.
    """
    prompts, _ = split_of(data, seed, "validation")
    proxy = held_out_states(teacher, prompts, generator=_generator(seed, 4))
    golden = None if oracle is None else held_out_states(oracle, prompts, generator=_generator(seed, 4))
    return HeldOut(proxy, golden)


def distilled_student(
    data: pl.DataFrame,
    oracle: NGram | None,
    teacher: NGram,
    student: NGram,
    regime: Regime,
    recipe: Recipe,
    *,
    seed: int,
    monitor: Monitor | None = None,
) -> Distilled:
    """One run of one seed."""
    prompts, _ = split_of(data, seed, "distillation")
    measured_on = held_out(data, oracle, teacher, seed=seed)
    return distil(student, teacher, prompts, regime, recipe, measured_on, seed=seed, monitor=monitor)


def split_of(data: pl.DataFrame, seed: int, split: str) -> tuple[Tensor, Tensor]:
    """Prompts [n, prompt_size] and the oracle's responses [n, length] of a seed's split, in order.

    Raises
    ------
    ValueError
        There are none.
    """
    rows = data.filter(pl.col("seed") == seed, pl.col("split") == split).sort("row")
    if rows.is_empty():
        raise ValueError(f"no {split} prompts of seed {seed} in the oracle data; make it for this seed")
    return torch.tensor(rows["prompt"].to_list()), torch.tensor(rows["response"].to_list())


def _derived(seed: int, part: int) -> int:
    return int(np.random.SeedSequence([seed, part]).generate_state(1)[0])


def _generator(seed: int, part: int) -> torch.Generator:
    return torch.Generator().manual_seed(_derived(seed, part))
