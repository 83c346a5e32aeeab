"""Scores in both orders: worked by hand, symmetric, and the same in any batch."""

import numpy as np
import polars as pl
import pytest
from scipy.special import softmax

from preflow.generative_reward.scoring import (
    consistent,
    order_probabilities,
    pointwise_rewards,
    preference_probability,
    response_logits,
    verdict_probabilities,
)
from tests.preflow.generative_reward.conftest import LIMITS, frame, prompt


def exchanged(rows):
    return rows.select("prompt", response_a="response_b", response_b="response_a")


@pytest.mark.claim("gram-4")
def test_exchanged_responses_exchange_the_scores(judge, pairs, record_claim):
    one, other = (
        preference_probability(verdict_probabilities(judge, rows, **LIMITS)) for rows in (pairs, exchanged(pairs))
    )
    off = float(np.abs(one + other - 1).max())
    logits = np.array([[2.0, 0.0], [2.0, 0.0]])  # orders, responses
    score = float(preference_probability(order_probabilities(logits[None]))[0])
    over_orders = float(softmax(logits, axis=0)[:, 0].mean())
    holds = off <= 1e-6 and round(score, 4) == 0.8808
    record_claim(f"{score:.4f} (softmax over the orders: {over_orders}); sums off by {off:.0e}", holds)
    assert off <= 1e-6
    assert score == pytest.approx(0.8808, abs=5e-5)
    assert over_orders == 0.5
    assert one.std() > 0.01, "the scores differ, so that the sums say something"


def test_the_orders_are_those_that_were_shown(judge, pairs):
    one, other = verdict_probabilities(judge, pairs, **LIMITS), verdict_probabilities(judge, exchanged(pairs), **LIMITS)
    assert one[:, 0] == pytest.approx(1 - other[:, 1], abs=1e-6)
    assert one[:, 1] == pytest.approx(1 - other[:, 0], abs=1e-6)
    assert np.abs(one[:, 0] - one[:, 1]).max() > 0.01, "this judge heeds the order"
    assert one == pytest.approx(softmax(response_logits(judge, pairs, **LIMITS), axis=2)[..., 0])


def test_the_batch_does_not_matter(judge, pairs):
    long = pl.concat([pairs, frame((prompt("cat dog cat dog"[:3] * 1), "plum lime plum lime", "lime"))])
    whole = verdict_probabilities(judge, long, **LIMITS)
    for tokens in (1, 50, 333):
        assert verdict_probabilities(judge, long, **LIMITS | {"max_batch_tokens": tokens}) == pytest.approx(
            whole, abs=1e-6
        )
    assert verdict_probabilities(judge, long.reverse(), **LIMITS)[::-1] == pytest.approx(whole, abs=1e-6)


def test_what_cannot_be_read_has_no_score(judge, pairs):
    odd = frame((prompt("zebra"), "plum", "lime"))
    found = verdict_probabilities(judge, pl.concat([pairs[:2], odd, pairs[2:3]]), **LIMITS)
    assert np.isnan(found[2]).all()
    assert found[[0, 1, 3]] == pytest.approx(verdict_probabilities(judge, pairs[:3], **LIMITS), abs=1e-6)
    assert np.isnan(verdict_probabilities(judge, odd, **LIMITS)).all()


def test_one_response_twice_is_a_tie(judge):
    found = verdict_probabilities(judge, frame((prompt("cat"), "plum", "plum")), **LIMITS)
    assert preference_probability(found)[0] == pytest.approx(0.5, abs=1e-6)


def test_consistency_by_hand():
    orders = np.array([[0.9, 0.6], [0.9, 0.4], [0.1, 0.2], [0.5, 0.9], [0.5, 0.5]])
    assert consistent(orders).tolist() == [True, False, True, False, False]
    assert preference_probability(orders).tolist() == pytest.approx([0.75, 0.65, 0.15, 0.7, 0.5])


def test_a_reward_of_one_response_is_that_against_its_reference(judge, pairs):
    rows = pairs.select("prompt", response="response_a", reference="response_b")
    expected = preference_probability(verdict_probabilities(judge, pairs, **LIMITS))
    assert pointwise_rewards(judge, rows, **LIMITS).tolist() == expected.tolist()
