import polars as pl
import pytest

from preflow.treatments.scores import implicit_rewards, model_rewards, rescaled, source_scores

IDS = [f"{i:032x}" for i in range(3)]


def table(chosen, rejected):
    frame = pl.DataFrame({"pair_id": IDS, "score_chosen": chosen, "score_rejected": rejected})
    return source_scores(frame, attribute="Overall score")


def test_source_scores_keep_what_is_missing():
    scores = table([9.0, None, 1.0], [4.5, 2.0, None])
    assert scores["score_chosen"].to_list() == [9.0, None, 1.0]
    assert scores["attribute"].unique().to_list() == ["Overall score"]


def test_rewards_of_a_model():
    rewards = pl.DataFrame({"pair_id": IDS, "reward_chosen": [0.5, 1.0, 2.0], "reward_rejected": [0.0, 0.0, 3.0]})
    assert model_rewards(rewards, attribute="r")["score_rejected"].to_list() == [0.0, 0.0, 3.0]


def test_implicit_reward_by_hand():
    logps = {"logp_chosen": -2.0, "ref_logp_chosen": -5.0, "logp_rejected": -4.0, "ref_logp_rejected": -3.0}
    scores = implicit_rewards(pl.DataFrame({"pair_id": IDS[:1]} | logps), beta=0.1, attribute="r")
    assert scores.row(0)[2:] == pytest.approx((0.3, -0.1))


def test_rescaled_by_hand():
    scores = rescaled(table([3.0, -1.0, None], [0.5, 0.0, 1.0]), low=1, high=10, decimals=1)
    # -1 is the least, 3 the greatest; 0 is a quarter of the way
    assert scores["score_chosen"].to_list() == [10.0, 1.0, None]
    assert scores["score_rejected"].to_list() == [4.4, 3.2, 5.5]
    assert scores.select("score_chosen", "score_rejected").max_horizontal().max() == 10.0


def test_scores_that_do_not_vary_are_refused():
    with pytest.raises(ValueError, match="the scores of Overall score do not vary"):
        rescaled(table([2.0, 2.0, 2.0], [2.0, 2.0, 2.0]), low=1, high=10, decimals=1)
