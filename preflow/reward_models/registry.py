"""The rewards by name: which there are, and how a saved one is opened to score."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from preflow.generative_reward.model import load_generative_reward
from preflow.lm.reward_head import load_reward_model
from preflow.policies.recipe import Recipe
from preflow.reward_models.discriminative import HeadScorer
from preflow.reward_models.embedding import EmbeddingScorer
from preflow.reward_models.generative import JudgeScorer
from preflow.reward_models.scorer import Scorer
from preflow.store import ArrayStore


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How texts are read, and where what was computed is kept from one run to the next."""

    recipe: Recipe
    """Limits and batches of language models."""
    judge_tokens: int
    """Most tokens that a judge reads."""
    scores: Path
    """Store of what language models said."""
    batch_size: int
    """Of the sentence encoder, like the next two; see `preflow.reward.encoder.embed_texts`."""
    max_tokens: int
    embeddings: Path


@dataclass(frozen=True)
class Unfitted:
    """Stands for a reward that was not fitted: it can read nothing."""

    reason: str

    def rewards(self, rows: pl.DataFrame) -> np.ndarray:
        """NaN for every row."""
        return np.full(len(rows), np.nan)

    def in_both_orders(self, rows: pl.DataFrame) -> None:  # noqa: ARG002
        """It is not asked."""
        return


def _baseline(folder: Path, reading: Reading) -> Scorer:
    return EmbeddingScorer.load(
        folder, store=reading.embeddings, batch_size=reading.batch_size, max_tokens=reading.max_tokens
    )


def _discriminative(folder: Path, reading: Reading) -> Scorer:
    return HeadScorer(load_reward_model(folder), reading.recipe, ArrayStore(reading.scores))


def _generative(folder: Path, reading: Reading) -> Scorer:
    return JudgeScorer(
        load_generative_reward(folder),
        ArrayStore(reading.scores),
        reading.judge_tokens,
        reading.recipe.max_batch_tokens,
    )


REWARDS: dict[str, Callable[[Path, Reading], Scorer]] = {
    "baseline": _baseline,
    "discriminative": _discriminative,
    "generative": _generative,
}
"""Every reward by the name that params give it."""


def open_reward(name: str, folder: Path, reading: Reading) -> Scorer:
    """The reward saved in `folder`, ready to score; see `Unfitted` for one that was not fitted.

    Raises
    ------
    KeyError
        There is no such reward.
    """
    reason = json.loads((folder / "config.json").read_text()).get("not_fitted")
    return Unfitted(reason) if reason else REWARDS[name](folder, reading)
