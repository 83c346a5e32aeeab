"""How policies are trained on pairs, and which pairs they can be trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.params import Params, ProjectPath
from preflow.treatments.schemas import TreatedPairs

if TYPE_CHECKING:
    from preflow.policies.study import Study


class RecipeParams(Params):
    """What all treatments share, so that only the data differ."""

    loss: Literal["dpo", "robust_dpo", "ipo", "simpo"]
    """Objective: dpo, robust_dpo, ipo or simpo."""
    beta: float = Field(gt=0)
    """How strongly a policy is held to the start policy; above 0."""
    label_smoothing: float = Field(ge=0, lt=0.5)
    """Believed share of wrong labels, for dpo and robust_dpo; from 0, below 0.5."""
    target_margin: float = Field(ge=0)
    """Margin that simpo asks for; at least 0."""
    learning_rate: float = Field(gt=0)
    """Greatest learning rate; above 0."""
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"]
    """Course of the learning rate: cosine, linear, constant or constant_with_warmup."""
    warmup_share: float = Field(ge=0, le=1)
    """Share of the steps in which the rate rises; 0 to 1."""
    epochs: float = Field(gt=0)
    """Passes over the pairs; above 0."""
    batch_size: int = Field(gt=0)
    """Pairs an update; above 0."""
    micro_batch_size: int = Field(gt=0)
    """Pairs in memory at a time; divides batch_size."""
    lora_rank: int | None = Field(gt=0)
    """Rank of LoRA adapters on all linear layers; null trains all weights."""
    bf16: bool
    """Whether to train in bfloat16, where the hardware has it."""
    max_prompt_tokens: int = Field(gt=0)
    """Pairs with a longer prompt are left out, never cut; above 0, with room for the words of a goal."""
    max_response_tokens: int = Field(gt=0)
    """Where responses are cut; above 0."""
    max_batch_tokens: int = Field(gt=0)
    """Tokens of a batch without gradients; above 0."""


class TrainingParams(Params):
    """Section `training`: how every policy is trained on pairs."""

    recipe: RecipeParams
    """What all treatments share."""
    max_pairs: int = Field(gt=0)
    """At most so many pairs of each split are used, in whole prompt groups drawn at random; above 0."""
    min_pairs: int = Field(gt=1)
    """With fewer train pairs that the policy can read nothing is trained, and the report says so; above 1."""
    store: ProjectPath
    """Folder that keeps log-probabilities of the start policy, held-out losses and checkpoints between runs."""
    threads: int = Field(gt=0)
    """CPU threads: a sum depends on them in its last bits, so they are a value like any other; above 0."""
    seed: int = Field(ge=0)
    """Seed of the draw; at least 0."""

    def study(self, start_policy: Path) -> "Study":
        """The policy in that folder, and how it is trained."""
        from preflow.policies.study import open_study

        return open_study(start_policy, self.recipe.model_dump(), Path(self.store), threads=self.threads)


@dg.multi_asset(
    outs={
        "untreated_pairs": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(TreatedPairs), "may_be_empty": True},
            description="The pairs as they are, with a reason for each that the policy cannot read.",
            kinds={"polars"},
        ),
        "readable": dg.AssetOut(
            io_manager_key="metrics", description="How many pairs the policy can be trained on, by split and reason."
        ),
    },
)
def read_pairs(
    preference_pairs: pl.LazyFrame, start_policy: Path, training: dg.ResourceParam[TrainingParams]
) -> tuple[pl.LazyFrame, dict[str, Any]]:
    """Which pairs the start policy can read, and why not the others."""
    from preflow.policies.policy import load_policy
    from preflow.policies.readable import reading, untreated_pairs
    from preflow.policies.recipe import Recipe

    pairs = untreated_pairs(
        preference_pairs.collect(),
        load_policy(start_policy, chat_template=None).tokenizer,
        Recipe(**training.recipe.model_dump()),
        max_pairs=training.max_pairs,
        min_pairs=training.min_pairs,
        seed=training.seed,
    )
    return pairs.lazy(), reading(pairs)
