"""A judge as a scorer: what it says in both orders, kept and never computed twice."""

from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import logit

from preflow.generative_reward.model import GenerativeRewardModel
from preflow.generative_reward.scoring import verdict_probabilities
from preflow.reward_models import generative
from preflow.reward_models.generative import JudgeScorer
from preflow.reward_models.registry import Unfitted, open_reward
from preflow.store import ArrayStore
from preflow.world.keyed import JUDGE_OF_KEYS
from tests.preflow.policies.conftest import of, taught


@cache
def judge():
    policy = taught()
    return GenerativeRewardModel(policy.model, policy.tokenizer, JUDGE_OF_KEYS)


def scorer(folder):
    return JudgeScorer(judge(), ArrayStore(folder), 48, 512)


@pytest.fixture
def asked(rows):
    return of(rows, "test").select("prompt", response="chosen", reference="rejected")


def test_it_says_what_the_judge_says(asked, tmp_path):
    pairs = asked.rename({"response": "response_a", "reference": "response_b"})
    said = verdict_probabilities(judge(), pairs, max_prompt_tokens=48, max_batch_tokens=512)
    assert len(said) == 20
    assert scorer(tmp_path).in_both_orders(asked) == pytest.approx(said, abs=1e-6)
    assert scorer(tmp_path).rewards(asked) == pytest.approx(logit(said.mean(axis=1)), abs=1e-4)


def test_the_other_way_round_it_says_the_opposite(asked, tmp_path):
    turned = asked.rename({"response": "reference", "reference": "response"})
    assert scorer(tmp_path).rewards(turned) == pytest.approx(-scorer(tmp_path).rewards(asked), abs=1e-5)


def test_nothing_is_asked_twice(asked, tmp_path, monkeypatch):
    first = scorer(tmp_path).rewards(asked)

    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr(generative, "presented_verdicts", never)
    assert (scorer(tmp_path).rewards(asked) == first).all()


def test_what_it_cannot_read_has_no_reward(asked, tmp_path):
    odd = asked[:3].with_columns(
        response=pl.Series(["a", "zebra", "a"]), reference=pl.Series(["b", "b", None], dtype=pl.String)
    )
    found = scorer(tmp_path).rewards(odd)
    assert np.isfinite(found[0])
    assert np.isnan(found[1:]).all()
    assert scorer(tmp_path).in_both_orders(odd[:0]).shape == (0, 2)


def test_a_reward_that_was_not_fitted_reads_nothing(asked, tmp_path):
    (tmp_path / "config.json").write_text('{"not_fitted": "too few pairs"}')
    opened = open_reward("generative", tmp_path, None)
    assert opened == Unfitted("too few pairs")
    assert np.isnan(opened.rewards(asked)).all()
    assert opened.in_both_orders(asked) is None
