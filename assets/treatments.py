"""Every treatment and its controls as data, and the policies that are trained on them."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.augmentation import AugmentationParams
from assets.training import TrainingParams
from preflow.params import Params
from preflow.policies.schemas import PolicyLogprobs, PolicyResponses
from preflow.treatments.schemas import TreatedPairs, kept_rows
from preflow.treatments.variants import Variant


class TreatmentsParams(Params):
    """Section `treatments`: which are compared, and what each policy is asked."""

    compared: list[Variant] = Field(min_length=1)
    """untreated, reward_augmented, easiest_share, easiest_share_augmented, random_share, hardest_share, ..."""
    label_smoothing: float = Field(gt=0, lt=0.5)
    """Of the treatment label_smoothed; above 0, below 0.5."""
    seeds: list[int] = Field(min_length=1)
    """Every treatment is trained once with each."""
    prompts: int = Field(gt=0)
    """At most so many prompts of validation and of test are answered; above 0."""
    samples: int = Field(gt=0)
    """Responses to each prompt; above 0."""
    temperature: float = Field(ge=0)
    """Of sampling; 0 takes the most probable token."""
    sampling_batch: int = Field(gt=0)
    """Prompts answered at a time; above 0."""
    goals: list[float] = Field(min_length=1)
    """Scores that reward-augmented policies are asked for; validation chooses the one to use."""
    seed: int = Field(ge=0)
    """Seed of the random share; at least 0."""


@dg.asset(
    io_manager_key="table",
    metadata={"schema": Meta.python_artifact(TreatedPairs), "may_be_empty": True},
    kinds={"polars"},
)
def treated_pairs(
    untreated_pairs: pl.LazyFrame,
    selected_pairs: pl.LazyFrame,
    reward_augmented_pairs: pl.LazyFrame,
    difficulty_scores: pl.LazyFrame,
    pluralistic_pairs: pl.LazyFrame,
    selection: dict[str, Any],
    treatments: dg.ResourceParam[TreatmentsParams],
) -> pl.LazyFrame:
    """Every derived dataset that is compared, with a reason for each row."""
    from preflow.treatments.variants import variants
    from preflow.world.gold import gold_rewards

    return variants(
        treatments.compared,
        untreated_pairs.filter(split="train").collect(),
        selected_pairs.collect(),
        reward_augmented_pairs.collect(),
        difficulty_scores.collect(),
        pluralistic_pairs.collect(),
        share=selection["share"],
        seed=treatments.seed,
        gold=gold_rewards,
    ).lazy()


@dg.multi_asset(
    outs={
        "trained_policies": dg.AssetOut(
            io_manager_key="model", description="A policy for each treatment and seed.", kinds={"torch"}
        ),
        "policy_responses": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(PolicyResponses), "may_be_empty": True},
            description="What the policies say to held-out prompts, under every goal where they know goals.",
            kinds={"polars"},
        ),
        "policy_logprobs": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(PolicyLogprobs), "may_be_empty": True},
            description="How probable both responses of each pair are to the policies.",
            kinds={"polars"},
        ),
        "trainings": dg.AssetOut(io_manager_key="metrics", description="Rows, steps and last loss of each training."),
    },
    pool="gpu",
)
def treatment_grid(
    treated_pairs: pl.LazyFrame,
    untreated_pairs: pl.LazyFrame,
    start_policy: Path,
    training: dg.ResourceParam[TrainingParams],
    augmentation: dg.ResourceParam[AugmentationParams],
    treatments: dg.ResourceParam[TreatmentsParams],
) -> Iterator[dg.Output]:
    """A policy trained on every treatment with every seed, from the same start policy, with the same recipe."""
    from preflow.policies.grid import Questions, run_grid
    from preflow.policies.measured import Sampling, held_out_prompts

    asked = pl.concat([kept_rows(untreated_pairs, split) for split in ("validation", "test")])
    questions = Questions(
        prompts=held_out_prompts(asked, most=treatments.prompts),
        pairs=untreated_pairs.filter("kept").collect(),
        goals=treatments.goals,
        text=augmentation.text(),
        sampling=Sampling(
            samples=treatments.samples,
            temperature=treatments.temperature,
            max_prompt_tokens=training.recipe.max_prompt_tokens,
            max_new_tokens=training.recipe.max_response_tokens,
            batch_size=treatments.sampling_batch,
        ),
    )
    study = training.study(start_policy)
    with TemporaryDirectory(prefix="preflow-") as scratch:
        outcome = run_grid(
            study,
            treated_pairs.collect(),
            questions,
            seeds=treatments.seeds,
            label_smoothing=treatments.label_smoothing,
            scratch=Path(scratch),
        )
        yield dg.Output(outcome.policies, "trained_policies")
        yield dg.Output(outcome.responses.lazy(), "policy_responses")
        yield dg.Output(outcome.logprobs.lazy(), "policy_logprobs")
        yield dg.Output({"runs": outcome.runs}, "trainings")
