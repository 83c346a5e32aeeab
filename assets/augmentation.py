"""Reward-augmented pairs: each scored pair twice, under a prompt that asks for the score of one of its responses."""

from pathlib import Path
from typing import Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.training import TrainingParams
from preflow.params import Params
from preflow.reward_models.schemas import RewardName
from preflow.treatments.goals import GoalText
from preflow.treatments.schemas import TreatedPairs, kept_rows


class ScaleParams(Params):
    """The scale to which scores of models are mapped; scores of the source stay as they are."""

    low: float
    """The least score."""
    high: float
    """The greatest score; above low."""
    decimals: int = Field(ge=0)
    """Decimals that a prompt states; at least 0."""


class AugmentationParams(Params):
    """Section `augmentation`: which scores a prompt asks for, and in which words."""

    attributes: dict[str, Literal["source", "implicit"] | RewardName] = Field(min_length=1)
    """Where each score comes from, by its name in the prompt: source (the data), implicit (a policy), or a reward."""
    scale: ScaleParams
    """The scale to which scores of models are mapped."""
    instruction: str
    """Words of the goal, with {goals} and, where wanted, {scale} in them."""
    scale_words: str
    """What stands for {scale}, for instance "1 (worst) to 10 (best)"."""
    place: Literal["system", "user"]
    """Where the words stand: a system turn, or the opening of the first user turn."""
    ties: Literal["drop", "keep_label"]
    """Pairs with equal scores: drop, or keep_label (one row with the recorded label)."""

    def text(self) -> GoalText:
        """The words of a goal."""
        return GoalText(
            instruction=self.instruction, scale=self.scale_words, attributes=tuple(self.attributes), place=self.place
        )


@dg.asset(
    io_manager_key="table",
    metadata={"schema": Meta.python_artifact(TreatedPairs), "may_be_empty": True},
    kinds={"polars"},
    pool="gpu",
)
def reward_augmented_pairs(
    untreated_pairs: pl.LazyFrame,
    reward_scores: pl.LazyFrame,
    start_policy: Path,
    training: dg.ResourceParam[TrainingParams],
    augmentation: dg.ResourceParam[AugmentationParams],
) -> pl.LazyFrame:
    """The train pairs twice, once for each goal; ties and pairs without scores are left out with a reason."""
    from preflow.policies.scores import scores_by_attribute
    from preflow.treatments.reward_augmented import augment

    study = training.study(start_policy)
    pairs = kept_rows(untreated_pairs, "train")
    scores = scores_by_attribute(
        augmentation.attributes,
        study,
        pairs,
        reward_scores.collect(),
        **augmentation.scale.model_dump(),
        seed=training.seed,
    )
    return augment(pairs, scores, text=augmentation.text(), ties=augmentation.ties).lazy()
