"""The small language as a family: a random oracle, and a teacher and a student's start that are fine-tuned on it.

Each seed has its own oracle, data and models. In the tables a prompt is the numbers of its vector as JSON, and a
response the numbers of its tokens.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from preflow.distil.family import Family
from preflow.distil.ngram import Language, NGram, load_ngram, random_oracle
from preflow.distil.schemas import SPLITS, OracleData
from preflow.distil.seeded import Seeded
from preflow.distil.seeds import derived, generator
from preflow.distil.supervised import sft


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


@dataclass(frozen=True, kw_only=True)
class SmallLanguage(Family):
    """N-grams of one language."""

    language: Language
    oracle_width: int
    embedding: int
    """Numbers that stand for a token, in all models."""
    teacher_tuning: FineTuning
    student_tuning: FineTuning
    sizes: Sizes

    def oracle(self, seeds: Sequence[int]) -> Seeded[NGram]:
        """A random frozen oracle for each seed."""
        width, embedding = self.oracle_width, self.embedding
        return Seeded(
            {
                seed: random_oracle(self.language, width=width, embedding=embedding, seed=derived(seed, 0))
                for seed in seeds
            }
        )

    def data(self, oracle: Seeded[NGram], seeds: Sequence[int]) -> pl.DataFrame:
        """`OracleData`: fresh prompts of each split; no split depends on another's size."""
        tables = []
        for seed in seeds:
            for part, split in enumerate(SPLITS):
                random = generator(seed, 10 + part)
                prompts = self.language.draw_prompts(getattr(self.sizes, split), random)
                columns = {"prompt": _texts(prompts), "response": _texts(oracle[seed].sample(prompts, random))}
                named = pl.DataFrame(columns).with_row_index("row").with_columns(seed=pl.lit(seed), split=pl.lit(split))
                tables.append(named)
        return OracleData.cast(pl.concat(tables))

    def teacher(self, data: pl.DataFrame) -> Seeded[NGram]:
        """A new model for each seed, fine-tuned on the oracle's responses."""
        return self._fine_tuned(data, self.teacher_tuning, part=2)

    def student(self, data: pl.DataFrame) -> Seeded[NGram]:
        """As `teacher`, smaller and for fewer epochs."""
        return self._fine_tuned(data, self.student_tuning, part=3)

    def prompts(self, data: pl.DataFrame, *, seed: int, split: str) -> Tensor:
        """Prompt vectors, [n, prompt_size]."""
        return _numbers(split_of(data, seed, split)["prompt"]).float()

    def load(self, folder: Path) -> NGram:
        """See `load_ngram`."""
        return load_ngram(folder).requires_grad_(requires_grad=False)

    def _fine_tuned(self, data: pl.DataFrame, how: FineTuning, *, part: int) -> Seeded[NGram]:
        models = {}
        for seed in data["seed"].unique().sort().to_list():
            order = derived(seed, part)
            start = NGram(self.language, width=how.width, embedding=self.embedding, seed=order)
            prompts = self.prompts(data, seed=seed, split="oracle")
            responses = _numbers(split_of(data, seed, "oracle")["response"])
            models[seed] = sft(
                start, prompts, responses, epochs=how.epochs, batch_size=how.batch_size, lr=how.lr, seed=order
            ).requires_grad_(requires_grad=False)
        return Seeded(models)


def split_of(data: pl.DataFrame, seed: int, split: str) -> pl.DataFrame:
    """Rows of a seed's split, in order.

    Raises
    ------
    ValueError
        There are none.
    """
    rows = data.filter(pl.col("seed") == seed, pl.col("split") == split).sort("row")
    if rows.is_empty():
        raise ValueError(f"no {split} prompts of seed {seed} in the oracle data; make it for this seed")
    return rows


def _texts(numbers: Tensor) -> list[str]:
    return [json.dumps(row) for row in numbers.tolist()]


def _numbers(texts: pl.Series) -> Tensor:
    return torch.tensor([json.loads(text) for text in texts.to_list()])
