import polars as pl
import pytest

from preflow.policies.measured import pair_logprobs
from preflow.policies.scores import own_scores, scores_by_attribute
from preflow.policies.training import train_on
from preflow.reward.schemas import RewardPredictions
from preflow.reward_models.schemas import RewardScores
from preflow.reward_models.scores import out_of_fold
from preflow.treatments.goals import GoalText
from preflow.treatments.reward_augmented import augment
from preflow.treatments.schemas import PairScores, training_rows
from preflow.treatments.scores import implicit_rewards
from tests.preflow.policies.conftest import RECIPE, of

SCALE = {"low": 1.0, "high": 10.0, "decimals": 1, "seed": 0}


@pytest.fixture(scope="module")
def train(rows):
    return of(rows, "train")[:40]


@pytest.fixture(scope="module")
def predictions(rows):
    """Rewards of all pairs: chosen 0.00, 0.01, ... and rejected 1 less."""
    rewards = pl.int_range(len(rows)) / 100
    return RewardPredictions.cast(
        rows.select(
            "pair_id", "split", reward_chosen=rewards, reward_rejected=rewards - 1, probability=0.7, suspicion=0.3
        )
    )


@pytest.fixture(scope="module")
def rewards(rows, predictions):
    """The same as `RewardScores`."""
    scores = out_of_fold(predictions.lazy(), rows.lazy(), reward="baseline")
    return RewardScores.cast(scores.with_columns(disagreement=None).sort("pair_id"))


def test_scores_of_the_source_stay_as_they_are(study, train, rewards):
    found = scores_by_attribute({"help": "source"}, study, train, rewards, **SCALE)
    PairScores.validate(found)
    expected = train.select("pair_id", "score_chosen", "score_rejected").sort("pair_id")
    assert found.drop("attribute").equals(expected)
    assert set(found["attribute"]) == {"help"}
    assert found["score_rejected"].min() == 0.0, "below the scale of models"


def test_rewards_of_the_model_are_mapped_to_the_scale_over_these_pairs(study, train, predictions, rewards):
    found = scores_by_attribute({"help": "baseline"}, study, train, rewards, **SCALE)
    assert found["pair_id"].to_list() == sorted(train["pair_id"])
    raw = predictions.join(train, on="pair_id", how="semi").sort("pair_id")
    least, greatest = raw["reward_rejected"].min(), raw["reward_chosen"].max()
    by_hand = [round(1 + 9 * (reward - least) / (greatest - least), 1) for reward in raw["reward_chosen"]]
    assert found["score_chosen"].to_list() == pytest.approx(by_hand, abs=0.0501)
    assert (found["score_rejected"].min(), found["score_chosen"].max()) == (1.0, 10.0)


def test_implicit_rewards_are_those_of_a_policy_trained_on_the_pairs(study, train, rewards):
    model = train_on(study, training_rows(train), seed=0).model
    raw = implicit_rewards(pair_logprobs(model, study, train), beta=RECIPE.beta, attribute="own")
    assert own_scores(study, train, attribute="own", seed=0).equals(raw)
    found = scores_by_attribute({"own": "implicit"}, study, train, rewards, **SCALE)
    both = ["score_chosen", "score_rejected"]
    low, high = raw.select(both).min_horizontal().min(), raw.select(both).max_horizontal().max()
    for side in both:
        by_hand = (1 + 9 * (raw[side] - low) / (high - low)).to_list()
        assert found[side].to_list() == pytest.approx(by_hand, abs=0.0501)
    assert (found["score_chosen"] > found["score_rejected"]).mean() > 0.8, "it learned the preference"


def test_several_attributes_become_goals_together(study, train, rewards):
    origins = {"help": "source", "own": "implicit", "model": "baseline"}
    found = scores_by_attribute(origins, study, train, rewards, **SCALE)
    assert len(found) == 3 * len(train)
    assert found.equals(found.sort("pair_id", "attribute"))
    for name, origin in origins.items():
        alone = scores_by_attribute({name: origin}, study, train, rewards, **SCALE)
        assert found.filter(attribute=name).equals(alone)
    text = GoalText(instruction="{goals}", scale="", attributes=tuple(origins), place="system")
    made = augment(train, found, text=text, ties="drop")
    assert made["kept"].sum() == 2 * len(train)
    goal = made.filter(reason="goal_of_chosen").row(0, named=True)
    scores = {row["attribute"]: row["score_chosen"] for row in found.filter(pair_id=goal["source_pair_id"]).to_dicts()}
    assert [(part["attribute"], part["value"]) for part in goal["goal"]] == [(name, scores[name]) for name in origins]


def test_the_order_of_rows_changes_no_score(study, train, rewards):
    origins = {"own": "implicit", "model": "baseline"}
    one = scores_by_attribute(origins, study, train, rewards, **SCALE)
    other = scores_by_attribute(origins, study, train[::-1], rewards[::-1], **SCALE)
    assert other.equals(one)


def test_without_pairs_there_are_no_scores(study, train, rewards):
    for origin in ("source", "baseline", "implicit"):
        found = scores_by_attribute({"help": origin}, study, train.clear(), rewards, **SCALE)
        assert found.equals(PairScores.create_empty())


def test_a_reward_that_scored_nothing_is_named_with_the_remedy(study, train, rewards):
    with pytest.raises(ValueError, match=r"'generative' has scored none of 40 pairs.*reward_models\.used"):
        scores_by_attribute({"help": "generative"}, study, train, rewards, **SCALE)
