"""A policy that was taught to copy two letters, and pairs that it can read, of which the truth is known."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
import torch

from preflow.policies.policy import Policy
from preflow.policies.readable import untreated_pairs
from preflow.policies.recipe import Recipe
from preflow.policies.study import Study
from preflow.treatments.goals import GoalText
from preflow.world.policy import demonstrated_policy
from preflow.world.tasks import distinct_tasks, task_stream
from preflow.world.tokenizer import world_tokenizer
from preflow.world.writers import Habits, demonstrations
from tests.preflow.treatments.conftest import frame, pair

COPY = {"families": ["copy"], "levels": [1]}
RECIPE = Recipe(
    loss="dpo",
    beta=0.1,
    label_smoothing=0.0,
    target_margin=0.0,
    learning_rate=2e-3,
    schedule="constant",
    warmup_share=0.0,
    epochs=2.0,
    batch_size=20,
    micro_batch_size=20,
    lora_rank=None,
    bf16=False,
    max_prompt_tokens=24,
    max_response_tokens=6,
    max_batch_tokens=4096,
)
LIMITS = {"max_pairs": 1000, "min_pairs": 2, "seed": 0}
TEXT = GoalText(instruction="{goals}", scale="", attributes=("score",), place="system")
SPLITS = ("train",) * 6 + ("validation", "test") * 2


@cache
def taught():
    """The start policy of all these tests; none of them may change it."""
    torch.set_num_threads(1)
    tasks = itertools.islice(task_stream(np.random.default_rng(0), **COPY), 400)
    habits = Habits(error=0.0, cut=0.0, refusal=0.0, style=0.0)
    shown = demonstrations(tasks, habits, np.random.default_rng(0), system_share=0.3, true_share=0.0)
    settings = {"steps": 60, "early_step": 60, "batch_size": 32, "learning_rate": 5e-3, "seed": 0}
    return Policy(demonstrated_policy("tiny", world_tokenizer(), shown, **settings).late, world_tokenizer())


def preferences(n=100, *, splits=SPLITS, flipped=frozenset()):
    """`n` pairs of one prompt each: both letters over the first alone, except where `flipped` has the number."""
    rows = []
    for i, task in enumerate(distinct_tasks(n, np.random.default_rng(3), **COPY, exclude=frozenset())):
        right, wrong = " ".join(task.answer), task.answer[0]
        chosen, rejected = (wrong, right) if i in flipped else (right, wrong)
        a, b = (chosen, rejected) if i % 2 else (rejected, chosen)
        scores = {"score_chosen": float(7 + i % 3), "score_rejected": float(i % 4)}
        split = splits[i % len(splits)]
        rows.append(
            pair([{"role": "user", "content": task.prompt}], a, b, chosen_is="ba"[i % 2], split=split, **scores)
        )
    return frame(rows)


def treated(pairs=None, **limits):
    """The pairs as the policy reads them, `TreatedPairs`."""
    pairs = preferences() if pairs is None else pairs
    return untreated_pairs(pairs, world_tokenizer(), RECIPE, **LIMITS | limits)


def of(rows, split):
    return rows.filter(pl.col("kept"), pl.col("split") == split)


def turned(rows):
    """The same comparisons, each with the other label."""
    other = pl.when(pl.col("chosen_is") == "a").then(pl.lit("b")).otherwise(pl.lit("a"))
    return rows.with_columns(chosen="rejected", rejected="chosen", chosen_is=other.cast(rows["chosen_is"].dtype))


def changed(study, **recipe):
    return replace(study, recipe=replace(study.recipe, **recipe))


@pytest.fixture(scope="session")
def policy():
    return taught()


@pytest.fixture
def study(policy, tmp_path):
    return Study(policy, RECIPE, tmp_path / "study")


@pytest.fixture(scope="session")
def rows():
    """100 pairs: 60 of train, 20 of validation, 20 of test."""
    return treated()
