"""The grid of trainings: every treatment with every seed, each policy measured as soon as it is trained."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from transformers import PreTrainedModel

from preflow.lm.trainer import Trained
from preflow.policies.measured import Sampling, pair_logprobs, responses
from preflow.policies.policy import Policy
from preflow.policies.schemas import PolicyLogprobs, PolicyResponses
from preflow.policies.study import Study
from preflow.policies.training import train_on
from preflow.treatments.goals import GoalText
from preflow.treatments.schemas import training_rows
from preflow.treatments.variants import LABEL_SMOOTHED

START = "start"
CONTROLS = (START, "untreated")
"""Policies that no goal was trained into; on test prompts they are asked for goals as well, as controls."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What every policy is asked."""

    prompts: pl.DataFrame
    """Columns split (validation or test), prompt_group, prompt."""
    pairs: pl.DataFrame
    """`TreatedPairs` whose log-probabilities are measured, prompts without goals."""
    goals: Sequence[float]
    text: GoalText
    sampling: Sampling


@dataclass(frozen=True)
class SavedPolicies:
    """The trained policies in a scratch folder, one folder a treatment and seed."""

    folder: Path

    def save_pretrained(self, folder: Path) -> None:
        """Move them into place."""
        shutil.copytree(self.folder, folder)


@dataclass(frozen=True)
class GridOutcome:
    """What the grid gave."""

    responses: pl.DataFrame
    """`PolicyResponses`."""
    logprobs: pl.DataFrame
    """`PolicyLogprobs`."""
    runs: list[dict[str, Any]]
    """Treatment, seed, rows and steps of each training, with the means that its last log holds."""
    policies: SavedPolicies


def run_grid(
    study: Study,
    treated: pl.DataFrame,
    questions: Questions,
    *,
    seeds: Sequence[int],
    label_smoothing: float,
    scratch: Path,
) -> GridOutcome:
    """Train a policy on every treatment in `treated` (`TreatedPairs`) with every seed, and put the questions to each.

    The start policy answers too, as the treatment `start`. The treatment `label_smoothed` is trained with
    `label_smoothing`, all others as `recipe` says. Checkpoints of all runs are kept until the last one is done.
    """
    names = treated.filter("kept")["treatment"].unique(maintain_order=True).to_list()
    said: list[pl.DataFrame] = [PolicyResponses.create_empty()]
    scored: list[pl.DataFrame] = [PolicyLogprobs.create_empty()]
    runs: list[dict[str, Any]] = []
    for seed in seeds if names else ():
        said.append(_asked(study, study.policy.model, START, questions, goals=[None], seed=seed))
        for name in names:
            rows = training_rows(treated.filter(pl.col("treatment") == name))
            trained = train_on(_under(study, name, label_smoothing), rows, seed=seed, resumable=True)
            runs.append(_run(name, seed, rows, trained))
            Policy(trained.model, study.policy.tokenizer).save_pretrained(scratch / name / f"seed-{seed}")
            conditioned = rows["goal"].is_not_null().any()
            goals = list(questions.goals) if conditioned else [None]
            said.append(_asked(study, trained.model, name, questions, goals=goals, seed=seed))
            scored.append(_named(pair_logprobs(trained.model, study, questions.pairs), name, seed))
    shutil.rmtree(study.checkpoints, ignore_errors=True)
    answered, measured = (pl.concat(parts, how="diagonal") for parts in (said, scored))
    return GridOutcome(PolicyResponses.cast(answered), PolicyLogprobs.cast(measured), runs, SavedPolicies(scratch))


def _under(study: Study, name: str, label_smoothing: float) -> Study:
    """The study with the recipe of a treatment."""
    if name != LABEL_SMOOTHED:
        return study
    return replace(study, recipe=replace(study.recipe, label_smoothing=label_smoothing))


def _asked(
    study: Study, model: PreTrainedModel, name: str, questions: Questions, *, goals: Sequence[float | None], seed: int
) -> pl.DataFrame:
    asked = [(questions.prompts, goals)]
    if name in CONTROLS:
        asked.append((questions.prompts.filter(pl.col("split") == "test"), questions.goals))
    found = [
        responses(
            model,
            study.policy.tokenizer,
            prompts,
            goals=under,
            text=questions.text,
            sampling=questions.sampling,
            seed=seed,
        )
        for prompts, under in asked
    ]
    return _named(pl.concat(found), name, seed)


def _named(frame: pl.DataFrame, treatment: str, seed: int) -> pl.DataFrame:
    return frame.with_columns(treatment=pl.lit(treatment), seed=pl.lit(seed, dtype=pl.Int64))


def _run(name: str, seed: int, rows: pl.DataFrame, trained: Trained) -> dict[str, Any]:
    last = trained.history[-1]
    kept = ("step", "loss", "margin", "accuracy")
    return {"treatment": name, "seed": seed, "rows": len(rows)} | {key: last[key] for key in kept}
