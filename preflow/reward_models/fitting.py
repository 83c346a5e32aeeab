"""Fits the rewards on a language model, and scores each training pair by models that have not seen it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from preflow.generative_reward.judge import JudgePrompt, presentations
from preflow.generative_reward.losses import Convention
from preflow.generative_reward.model import GenerativeRewardModel
from preflow.generative_reward.training import pretrain_on_pairs, train_verdicts
from preflow.lm.reward_head import RewardModel
from preflow.policies.policy import Policy
from preflow.policies.recipe import Recipe
from preflow.reward.baseline import group_folds
from preflow.reward_models.discriminative import HeadScorer, fit_discriminative
from preflow.reward_models.generative import JudgeScorer
from preflow.reward_models.schemas import RewardScores
from preflow.reward_models.scorer import Scorer
from preflow.reward_models.scores import reward_scores
from preflow.store import ArrayStore


class Saved(Protocol):
    """What can be written as a model."""

    def save_pretrained(self, folder: Path) -> None:
        """Write it into `folder`."""


@dataclass(frozen=True)
class NotFitted:
    """Stands for a reward where there are no pairs to fit it on."""

    reason: str

    def save_pretrained(self, folder: Path) -> None:
        """Write the reason as `config.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"not_fitted": self.reason}, indent=2) + "\n")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How both rewards are fitted."""

    discriminative: Recipe
    judge: JudgePrompt
    pretraining: Recipe
    """Its `max_response_tokens` is for both responses together."""
    tuning: Recipe
    """Its `max_prompt_tokens` is for all that the judge reads."""
    label_smoothing: float
    convention: Convention
    folds: int
    """In how many parts, whole prompt groups, the labelled pairs are scored by models fitted on the others."""
    seed: int


@dataclass(frozen=True)
class Fitted:
    """What came of it."""

    discriminative: Saved
    generative: Saved
    out_of_fold: pl.DataFrame
    """`RewardScores` of the labelled pairs, each by models that have not seen it."""
    summary: dict[str, Any]
    """Pairs used and left out, by reason; `not_fitted` is the reason why there are no models, or null."""


def fit_reward_models(
    policy: Policy, labelled: pl.DataFrame, unlabelled: pl.DataFrame, settings: Settings, *, store: Path
) -> Fitted:
    """Both rewards on copies of one policy: a Bradley-Terry head, and a judge pre-trained on pairs without labels.

    Parameters
    ----------
    labelled
        `TreatedPairs` of the train split that the policy can read (see `preflow.policies.readable`); `share` is that
        of the votes for chosen, null for a hard label.
    unlabelled
        Columns prompt, response_a, response_b; none of a held-out split. What cannot be read is left out.
    store
        Folder that keeps what the models said.
    """
    sided = _with_sides(labelled)
    judged = _readable(policy, sided, settings.judge, settings.tuning.max_prompt_tokens)
    counts = {"labelled": len(labelled), "judged": len(judged)}
    if judged["prompt_group"].n_unique() < settings.folds:
        reason = f"{len(judged)} labelled pairs can be read by the start policy; {settings.folds} folds need more"
        nothing = NotFitted(reason)
        return Fitted(nothing, nothing, RewardScores.create_empty(), {"not_fitted": reason, **counts})
    texts = _readable(policy, unlabelled, settings.judge, settings.tuning.max_prompt_tokens)
    start = pretrain_on_pairs(policy, settings.judge, texts, settings.pretraining, seed=settings.seed)
    parts = [
        _scored(policy, start, sided.filter(~held), sided.filter(held), settings, store)
        for held in group_folds(sided, settings.folds, settings.seed)
    ]
    discriminative, generative = _fit(policy, start, sided, settings)
    scores = RewardScores.cast(pl.concat(parts).sort("pair_id", "reward"))
    return Fitted(discriminative, generative, scores, {"not_fitted": None, **counts, "unlabelled": len(texts)})


def _scored(
    policy: Policy, start: Policy, rest: pl.DataFrame, held: pl.DataFrame, settings: Settings, store: Path
) -> pl.DataFrame:
    """`RewardScores` of the held-out pairs by models fitted on the rest."""
    discriminative, generative = _fit(policy, start, rest, settings)
    scorers: Mapping[str, Scorer] = {
        "discriminative": HeadScorer(discriminative, settings.discriminative, ArrayStore(store)),
        "generative": JudgeScorer(
            generative, ArrayStore(store), settings.tuning.max_prompt_tokens, settings.tuning.max_batch_tokens
        ),
    }
    return reward_scores(held, scorers)


def _fit(
    policy: Policy, start: Policy, rows: pl.DataFrame, settings: Settings
) -> tuple[RewardModel, GenerativeRewardModel]:
    """Both rewards on these labelled pairs; `start` has been through the first stage."""
    judged = _readable(policy, rows, settings.judge, settings.tuning.max_prompt_tokens)
    labelled = judged.select("prompt", "chosen", "rejected", "share")
    generative = train_verdicts(
        start, settings.judge, labelled, settings.tuning,
        label_smoothing=settings.label_smoothing, convention=settings.convention, seed=settings.seed,
    )  # fmt: skip
    return fit_discriminative(policy, rows, settings.discriminative, seed=settings.seed), generative


def _with_sides(labelled: pl.DataFrame) -> pl.DataFrame:
    """The same with the responses as they stood in the comparison."""
    a = pl.col("chosen_is") == "a"
    return labelled.sort("pair_id").with_columns(
        response_a=pl.when(a).then("chosen").otherwise("rejected"),
        response_b=pl.when(a).then("rejected").otherwise("chosen"),
    )


def _readable(policy: Policy, rows: pl.DataFrame, judge: JudgePrompt, limit: int) -> pl.DataFrame:
    """The rows that the judge can read."""
    sides = rows.select("prompt", "response_a", "response_b")
    return rows[list(presentations(policy.tokenizer, judge, sides, max_prompt_tokens=limit).rows)]
