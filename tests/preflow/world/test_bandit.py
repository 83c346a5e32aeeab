import math

import numpy as np
import polars as pl
import pytest
import torch

from preflow.schemas import PreferencePairs
from preflow.treatments.goals import with_goal
from preflow.world.bandit import (
    IN_SYSTEM_TURN,
    NO_GOAL,
    Policy,
    draw_bandit,
    draw_pairs,
    mean_rewards,
    pair_logps,
    read_pairs,
)


@pytest.fixture(scope="module")
def bandit():
    return draw_bandit(contexts=50, actions=40, seed=0)


def test_rewards_are_whole_numbers_of_the_scale(bandit):
    assert set(bandit.rewards.unique().tolist()) <= set(range(1, 11))
    assert bandit.rewards.mean().item() == pytest.approx(5.5, abs=0.1)
    assert 8.5 < bandit.rewards.max(1).values.mean() < 9.5


def test_pairs_are_canonical_distinct_and_rightly_labelled(bandit):
    pairs = draw_pairs(bandit, 200, seed=1)
    assert PreferencePairs.is_valid(pairs)
    assert pairs["pair_id"].n_unique() == 200
    assert (pairs["margin"] > 0).all()
    seen = read_pairs(pairs)
    assert bandit.rewards[seen.context, seen.chosen].tolist() == pairs["score_chosen"].to_list()
    assert bandit.rewards[seen.context, seen.rejected].tolist() == pairs["score_rejected"].to_list()
    assert seen.goal.isnan().all()
    assert draw_pairs(bandit, 200, seed=1).equals(pairs)


def test_a_policy_reads_the_goal_from_the_words():
    user = [{"role": "user", "content": "Context 7."}]
    prompts = [user, with_goal(user, (9.0,), IN_SYSTEM_TURN), with_goal(user, (4.5,), IN_SYSTEM_TURN)]
    seen = read_pairs(pl.DataFrame({"prompt": prompts, "chosen": "Action 3.", "rejected": "Action 12."}))
    assert seen.goal[1:].tolist() == [9.0, 4.5]
    assert math.isnan(seen.goal[0])
    assert (seen.context.tolist(), seen.chosen[0].item(), seen.rejected[0].item()) == ([7, 7, 7], 3, 12)


def test_log_probabilities_add_up(bandit):
    policy = Policy(40, width=8, seed=0)
    logps = policy(bandit.features, torch.full((50,), NO_GOAL))
    assert logps.exp().sum(1).tolist() == pytest.approx([1.0] * 50, abs=1e-5)
    pairs = draw_pairs(bandit, 20, seed=1)
    table, seen = pair_logps(policy, bandit, pairs, torch.full((20,), NO_GOAL)), read_pairs(pairs)
    assert table["logp_chosen"].to_list() == pytest.approx(logps[seen.context, seen.chosen].tolist())
    assert set(table["ref_logp_chosen"]) == {-math.log(40)}


def test_mean_reward_by_hand(bandit):
    policy = Policy(40, width=8, seed=0)
    torch.nn.init.zeros_(policy.net[-1].weight)
    torch.nn.init.zeros_(policy.net[-1].bias)  # the uniform policy
    assert np.allclose(mean_rewards(policy, bandit, 10.0), bandit.rewards.mean(1))


def test_more_pairs_than_there_are_is_refused():
    with pytest.raises(ValueError, match="distinct pairs were found"):
        draw_pairs(draw_bandit(contexts=2, actions=3, seed=0), 50, seed=0)
