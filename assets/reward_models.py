"""Rewards on a language model, and what every reward gives every response."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.reward import RewardParams
from assets.training import TrainingParams
from preflow.params import Params, ProjectPath
from preflow.reward_models.schemas import RewardName, RewardScores

if TYPE_CHECKING:
    from preflow.reward_models.fitting import Settings
    from preflow.reward_models.scorer import Scorer


class TuningParams(Params):
    """How a reward is tuned; all else is as training.recipe says."""

    learning_rate: float = Field(gt=0)
    """Greatest learning rate; above 0."""
    epochs: float = Field(gt=0)
    """Passes over the pairs; above 0."""


class WordingParams(Params):
    """What the judge reads, in words that the start policy knows; an empty part is left out."""

    instruction: str
    """What is asked."""
    before_prompt: str
    """Stands before the prompt."""
    before_first: str
    """Stands before the first response."""
    before_second: str
    """Stands before the second response."""
    cue: str
    """Stands last: the verdict follows it."""
    separator: str
    """Between the parts."""
    verdicts: list[str] = Field(min_length=2, max_length=2)
    """Names of the first and of the second response, each one token of the model."""


class GenerativeParams(Params):
    """The generative reward model."""

    wording: WordingParams
    """What the judge reads."""
    max_tokens: int = Field(gt=0)
    """Pairs of which the judge would read more are left out; above 0."""
    pretraining: TuningParams
    """First stage: pairs without labels, as text."""
    tuning: TuningParams
    """Second stage: verdicts on labelled pairs, each in both orders."""
    label_smoothing: float = Field(ge=0, lt=0.5)
    """Share of a verdict that goes to the other one; from 0, below 0.5."""
    convention: Literal["paper", "torch"]
    """paper: all of label_smoothing goes to the wrong verdict; torch: half of it."""


class RewardModelsParams(Params):
    """Section `reward_models`: rewards by name, for relabelling, comparison, triage, benchmark and audit."""

    used: list[RewardName] = Field(min_length=1)
    """Which rewards score every response."""
    discriminative: TuningParams
    """A Bradley-Terry head on the start policy."""
    generative: GenerativeParams
    """The start policy as a judge."""
    folds: int = Field(ge=2)
    """Parts in which train pairs are scored by models that have not seen them; at least 2."""
    store: ProjectPath
    """Folder that keeps what the models said from one run to the next."""
    seed: int = Field(ge=0)
    """Seed of folds and trainings; at least 0."""

    def settings(self, training: TrainingParams) -> "Settings":
        """The same, as the library takes it."""
        from dataclasses import replace

        from preflow.generative_reward.judge import JudgePrompt
        from preflow.policies.recipe import Recipe
        from preflow.reward_models.fitting import Settings

        recipe, judge = Recipe(**training.recipe.model_dump()), self.generative
        first, second = judge.wording.verdicts
        within = replace(recipe, max_prompt_tokens=judge.max_tokens, max_response_tokens=2 * recipe.max_response_tokens)
        return Settings(
            discriminative=replace(recipe, **self.discriminative.model_dump()),
            judge=JudgePrompt(**judge.wording.model_dump(exclude={"verdicts"}), verdicts=(first, second)),
            pretraining=replace(within, **judge.pretraining.model_dump()),
            tuning=replace(within, **judge.tuning.model_dump()),
            label_smoothing=judge.label_smoothing,
            convention=judge.convention,
            folds=self.folds,
            seed=self.seed,
        )

    def scorers(
        self, names: Sequence[RewardName], reward: RewardParams, training: TrainingParams, **saved: Path
    ) -> dict[str, "Scorer"]:
        """The rewards of these names; `saved` has the folder of each under its name."""
        import torch

        from preflow.policies.recipe import Recipe
        from preflow.reward_models.registry import Reading, open_reward

        torch.set_num_threads(reward.threads if list(names) == ["baseline"] else training.threads)
        reading = Reading(
            recipe=Recipe(**training.recipe.model_dump()),
            judge_tokens=self.generative.max_tokens,
            scores=Path(self.store),
            batch_size=reward.batch_size,
            max_tokens=reward.max_tokens,
            embeddings=Path(reward.store),
        )
        return {name: open_reward(name, saved[name], reading) for name in names}


@dg.multi_asset(
    outs={
        "discriminative_reward_model": dg.AssetOut(
            io_manager_key="model", description="A Bradley-Terry head on the start policy.", kinds={"torch"}
        ),
        "generative_reward_model": dg.AssetOut(
            io_manager_key="model", description="The start policy as a judge of two responses.", kinds={"torch"}
        ),
        "out_of_fold_scores": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(RewardScores), "may_be_empty": True},
            description="What both give the pairs they are fitted on, each by models that have not seen it.",
            kinds={"polars"},
        ),
        "reward_models_fit": dg.AssetOut(
            io_manager_key="metrics", description="Pairs that both were fitted on, or why they were not."
        ),
    },
    pool="gpu",
)
def fit_reward_models(
    untreated_pairs: pl.LazyFrame,
    preference_pairs: pl.LazyFrame,
    comparisons: pl.LazyFrame,
    splits: pl.LazyFrame,
    start_policy: Path,
    training: dg.ResourceParam[TrainingParams],
    reward_models: dg.ResourceParam[RewardModelsParams],
) -> Iterator[dg.Output]:
    """Rewards on copies of the start policy, fitted to the shares of the votes."""
    from preflow.reward_models.fitting import fit_reward_models as fit
    from preflow.treatments.schemas import kept_rows

    shares = preference_pairs.select("pair_id", share="vote_share").collect()
    labelled = kept_rows(untreated_pairs, "train").drop("share").join(shares, on="pair_id")
    train = splits.filter(pl.col("split") == "train").select("pair_id")
    unlabelled = comparisons.join(train, on="pair_id", how="semi").sort("pair_id").collect()
    policy = training.study(start_policy).policy
    made = fit(policy, labelled, unlabelled, reward_models.settings(training), store=Path(reward_models.store))
    yield dg.Output(made.discriminative, "discriminative_reward_model")
    yield dg.Output(made.generative, "generative_reward_model")
    yield dg.Output(made.out_of_fold.lazy(), "out_of_fold_scores")
    yield dg.Output(made.summary, "reward_models_fit")


@dg.asset(io_manager_key="table", metadata={"schema": Meta.python_artifact(RewardScores)}, kinds={"torch"}, pool="gpu")
def reward_scores(
    comparisons: pl.LazyFrame,
    preference_pairs: pl.LazyFrame,
    reward_predictions: pl.LazyFrame,
    out_of_fold_scores: pl.LazyFrame,
    baseline_reward_model: Path,
    discriminative_reward_model: Path,
    generative_reward_model: Path,
    reward: dg.ResourceParam[RewardParams],
    training: dg.ResourceParam[TrainingParams],
    reward_models: dg.ResourceParam[RewardModelsParams],
) -> pl.LazyFrame:
    """What every reward gives both responses of each comparison that it can read, and where the rewards disagree."""
    from preflow.reward_models.scores import held_out_scores, out_of_fold
    from preflow.reward_models.scores import reward_scores as scored

    scorers = reward_models.scorers(
        reward_models.used,
        reward,
        training,
        baseline=baseline_reward_model,
        discriminative=discriminative_reward_model,
        generative=generative_reward_model,
    )
    scores = scored(comparisons.sort("pair_id").collect(), scorers)
    unseen = [
        out_of_fold(reward_predictions, preference_pairs, reward="baseline"),
        out_of_fold_scores.drop("disagreement").collect(),
    ]
    held_out = pl.concat(unseen, how="vertical_relaxed").filter(pl.col("reward").is_in(reward_models.used))
    return held_out_scores(scores, held_out).lazy()
