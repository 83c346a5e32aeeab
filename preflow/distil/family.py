"""Where the models of a distillation come from: what is asked of a scale, so that all scales go through one graph."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from preflow.distil.language import LanguageModel
from preflow.distil.seeded import Seeded


class Family(ABC):
    """Oracle, its data, and what is made from the data, as in the paper's figure 1: teacher and student's start."""

    @abstractmethod
    def oracle(self, seeds: Sequence[int]) -> Seeded:
        """What the teacher stands for; empty where nobody has it, as with a teacher of one's own."""

    @abstractmethod
    def data(self, oracle: Seeded, seeds: Sequence[int]) -> pl.DataFrame:
        """`OracleData`: prompts of each split with the oracle's responses, null without an oracle."""

    @abstractmethod
    def teacher(self, data: pl.DataFrame) -> Seeded:
        """A teacher for each seed of the data."""

    @abstractmethod
    def student(self, data: pl.DataFrame) -> Seeded:
        """What a student starts from, for each seed of the data."""

    @abstractmethod
    def prompts(self, data: pl.DataFrame, *, seed: int, split: str) -> Any:
        """The prompts of a seed's split in order, as this family's models take them."""

    @abstractmethod
    def load(self, folder: Path) -> LanguageModel:
        """A model that its `save_pretrained` wrote."""
