"""Transformers as a family: an oracle by name, and a teacher and a student's start that are fine-tuned on what it says.

As in the paper, one oracle serves all seeds; data, teacher and student differ by seed. A user's own teacher has no
oracle: then nothing is fine-tuned, responses are null, and golden distances cannot be had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from preflow.distil.family import Family
from preflow.distil.prompt_sources import FilePrompts, read_prompts, world_prompts
from preflow.distil.schemas import SPLITS, OracleData
from preflow.distil.seeded import Seeded
from preflow.distil.seeds import derived, generator
from preflow.distil.small_language import Sizes, split_of
from preflow.distil.supervised import sft
from preflow.distil.transformer import Running, Transformer, UserTurns, load_transformer
from preflow.policies.policy import Policy
from preflow.policies.start import start_policy
from preflow.world.policy import new_policy
from preflow.world.tokenizer import world_tokenizer


@dataclass(frozen=True, kw_only=True)
class ModelTuning:
    """A model and how it learns from the oracle's responses."""

    model: str
    """`world:SIZE`, new with random weights; or a name as `preflow.policies.start.start_policy` reads them."""
    epochs: int
    """0 takes the model as it is."""
    batch_size: int
    lr: float


@dataclass(frozen=True, kw_only=True)
class Transformers(Family):
    """Causal language models of `transformers`.

    Raises
    ------
    ValueError
        A model is to learn from an oracle that there is not.
    """

    oracle_model: str | None
    """`world:SIZE`, taught on demonstrations, or as in `start_policy`; None: there is no oracle."""
    oracle_seed: int
    """Of an oracle of the world."""
    teacher_tuning: ModelTuning
    student_tuning: ModelTuning
    prompts_file: Path | None
    """See `read_prompts`; None for tasks of the world."""
    sizes: Sizes
    running: Running
    cache: Path
    """Folder for converted weights of packages."""

    def __post_init__(self) -> None:
        if self.oracle_model is None and (self.teacher_tuning.epochs or self.student_tuning.epochs):
            raise ValueError(
                f"without an oracle there is nothing to fine-tune on, and teacher and student have "
                f"{self.teacher_tuning.epochs} and {self.student_tuning.epochs} epochs; give 0, or name an oracle"
            )

    def oracle(self, seeds: Sequence[int]) -> Seeded[Transformer]:
        """One oracle for all seeds, or none."""
        if self.oracle_model is None:
            return Seeded({})
        policy = start_policy(self.oracle_model, chat_template=None, seed=self.oracle_seed, cache=self.cache)
        return Seeded(dict.fromkeys(seeds, self._frozen(policy, self.oracle_model)))

    def data(self, oracle: Seeded[Transformer], seeds: Sequence[int]) -> pl.DataFrame:
        """`OracleData`: distinct prompts, none in two splits; without an oracle no split of its own and no response.

        Raises
        ------
        ValueError
            There are too few prompts.
        """
        splits = SPLITS if len(oracle) else SPLITS[1:]
        sizes = [getattr(self.sizes, split) for split in splits]
        drawn = {seed: self._drawn(sum(sizes), seed) for seed in seeds}  # too few are seen before anything is sampled
        tables = []
        for seed, texts in drawn.items():
            for part, split in enumerate(splits):
                prompts = UserTurns(tuple(texts[sum(sizes[:part]) : sum(sizes[: part + 1])]))
                responses = self._responses(oracle, prompts, seed, part) if len(oracle) else [None] * len(prompts)
                columns = {"prompt": prompts.texts, "response": pl.Series(responses, dtype=pl.String)}
                named = pl.DataFrame(columns).with_row_index("row").with_columns(seed=pl.lit(seed), split=pl.lit(split))
                tables.append(named)
        return OracleData.cast(pl.concat(tables))

    def teacher(self, data: pl.DataFrame) -> Seeded[Transformer]:
        """A model for each seed, fine-tuned on the oracle's responses; one for all where it is taken as it is."""
        return self._tuned(data, self.teacher_tuning, part=2)

    def student(self, data: pl.DataFrame) -> Seeded[Transformer]:
        """As `teacher`."""
        return self._tuned(data, self.student_tuning, part=3)

    def prompts(self, data: pl.DataFrame, *, seed: int, split: str) -> UserTurns:
        """Users' turns."""
        return UserTurns(tuple(split_of(data, seed, split)["prompt"]))

    def load(self, folder: Path) -> Transformer:
        """See `load_transformer`."""
        return load_transformer(folder, self.running, name=str(folder)).requires_grad_(requires_grad=False)

    @cached_property
    def _file(self) -> FilePrompts | None:
        return None if self.prompts_file is None else read_prompts(self.prompts_file)

    def _drawn(self, n: int, seed: int) -> list[str]:
        rng = np.random.default_rng(derived(seed, 10))
        return world_prompts(n, rng) if self._file is None else self._file.drawn(n, rng)

    def _responses(self, oracle: Seeded[Transformer], prompts: UserTurns, seed: int, part: int) -> list[str]:
        return oracle[seed].texts(oracle[seed].sample(prompts, generator(seed, 11 + part)))

    def _frozen(self, policy: Policy, name: str) -> Transformer:
        return Transformer(policy, self.running, name=name).requires_grad_(requires_grad=False)

    def _tuned(self, data: pl.DataFrame, how: ModelTuning, *, part: int) -> Seeded[Transformer]:
        seeds = data["seed"].unique().sort().to_list()
        if how.epochs == 0:
            return Seeded(dict.fromkeys(seeds, self._start(how.model, derived(0, part))))
        return Seeded({seed: self._taught(data, how, seed, derived(seed, part)) for seed in seeds})

    def _taught(self, data: pl.DataFrame, how: ModelTuning, seed: int, order: int) -> Transformer:
        start, prompts = self._start(how.model, order), self.prompts(data, seed=seed, split="oracle")
        responses = start.tokens(prompts, split_of(data, seed, "oracle")["response"].to_list())
        start.requires_grad_(requires_grad=True)
        trained = sft(start, prompts, responses, epochs=how.epochs, batch_size=how.batch_size, lr=how.lr, seed=order)
        return trained.requires_grad_(requires_grad=False)

    def _start(self, name: str, seed: int) -> Transformer:
        """A new model of the world with random weights, or the one that is named."""
        kind, _, size = name.partition(":")
        if kind == "world":
            tokenizer = world_tokenizer()
            policy = Policy(new_policy(size, tokenizer, seed=seed), tokenizer)
        else:
            policy = start_policy(name, chat_template=None, seed=seed, cache=self.cache)
        return self._frozen(policy, name)
