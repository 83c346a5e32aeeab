"""Judges of the keyed world in three arms: with pre-training, without it, and with prompts shuffled across pairs."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
import torch
from transformers import LlamaForCausalLM

from preflow.generative_reward.scoring import verdict_probabilities
from preflow.generative_reward.training import fit_generative, pretrain_on_pairs, train_verdicts
from preflow.policies.policy import Policy
from preflow.policies.recipe import Recipe
from preflow.world.keyed import JUDGE_OF_KEYS, draw_keyed, shuffled_prompts
from preflow.world.policy import new_policy
from preflow.world.tokenizer import world_tokenizer

PRETRAINING = Recipe(
    loss="dpo",
    beta=0.1,
    label_smoothing=0.0,
    target_margin=0.0,
    learning_rate=3e-3,
    schedule="cosine",
    warmup_share=0.1,
    epochs=1.5,
    batch_size=64,
    micro_batch_size=64,
    lora_rank=None,
    bf16=False,
    max_prompt_tokens=24,
    max_response_tokens=8,
    max_batch_tokens=4096,
)
TUNING = replace(PRETRAINING, learning_rate=1e-3, epochs=16.0)
REDUCED = {"unlabelled": 14000, "epochs": 10.0}
SMOOTHING = {"label_smoothing": 0.1, "convention": "torch"}
LIMITS = {"max_prompt_tokens": 24, "max_batch_tokens": 4096}
UNLABELLED, GOOD, LABELS, NOISE, TESTED = 20000, 0.7, 800, 0.1, 400
ARMS = ("stage 1", "no stage 1", "placebo")
INITIAL_SPREAD = 0.1  # of the weights; at transformers' 0.02 so narrow a model learns to compare only very late


class Measured(NamedTuple):
    """P(right response) in both orders, [n, 2]."""

    labelled: np.ndarray
    unseen: np.ndarray


def new_judge(seed):
    torch.set_num_threads(1)
    config = new_policy("tiny", world_tokenizer(), seed=seed).config
    config.initializer_range = INITIAL_SPREAD
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Policy(LlamaForCausalLM(config), world_tokenizer())


def labels(seed, n=LABELS, noise=NOISE):
    world = draw_keyed(seed)
    return world.labelled(world.labelled_keys, n, noise=noise, seed=seed)


def as_pairs(rows):
    return rows.select("prompt", response_a="chosen", response_b="rejected")


@cache
def measured(seed, arm, *, unlabelled=UNLABELLED, epochs=TUNING.epochs):
    """One arm, from a new model to what it says of right and wrong responses to labelled and to unseen keys."""
    world = draw_keyed(seed)
    drawn = world.unlabelled(unlabelled, good=GOOD, seed=seed + 1000)
    pairs = {"stage 1": drawn, "no stage 1": None, "placebo": shuffled_prompts(drawn, seed=seed)}[arm]
    how = {"pretraining": PRETRAINING, "tuning": replace(TUNING, epochs=epochs), **SMOOTHING, "seed": seed}
    judge = fit_generative(new_judge(seed), JUDGE_OF_KEYS, unlabelled=pairs, labelled=labels(seed), **how)
    keys = (world.labelled_keys, world.unseen_keys)
    tests = [as_pairs(world.labelled(each, TESTED, noise=0.0, seed=seed + 2000)) for each in keys]
    return Measured(*(verdict_probabilities(judge, rows, **LIMITS) for rows in tests))


QUICK = replace(PRETRAINING, epochs=1.0, learning_rate=2e-3)
SHORT = replace(QUICK, epochs=6.0)


@cache
def quick_judge():
    """A judge after a short training of both stages; none of the tests may change it."""
    world = draw_keyed(0)
    start = pretrain_on_pairs(new_judge(0), JUDGE_OF_KEYS, world.unlabelled(640, good=GOOD, seed=0), QUICK, seed=0)
    return train_verdicts(start, JUDGE_OF_KEYS, labels(0), SHORT, **SMOOTHING, seed=0)


@pytest.fixture
def judge():
    return quick_judge()


@pytest.fixture
def pairs():
    """Right and wrong responses to unseen keys."""
    world = draw_keyed(0)
    return as_pairs(world.labelled(world.unseen_keys, 40, noise=0.0, seed=9))


def prompt(text):
    return [{"role": "user", "content": text}]


def frame(*rows):
    return pl.DataFrame([dict(zip(("prompt", "response_a", "response_b"), row, strict=True)) for row in rows])
