import polars as pl
import pytest

from preflow.comparison.goals import at_goals, goal_control, goal_curve, judges_of, picked_goals
from preflow.comparison.schemas import JudgedResponses
from tests.preflow.comparison.tables import GOALS, goal_world, judged, judged_rows

RESAMPLING = {"rounds": 2000, "seed": 0}


def test_goal_is_picked_on_validation_and_not_on_test():
    rows = goal_world(best_on_validation=7.0, best_on_test=4.0)
    curve = pl.DataFrame(goal_curve(rows, "gold", **RESAMPLING)).filter(treatment="reward_augmented")
    assert curve.sort("mean")["goal"][-1] != 7.0
    goals = picked_goals(rows, "gold")
    assert goals == {"reward_augmented": 7.0, "untreated": None}
    tested = at_goals(rows, goals)
    assert set(tested["split"]) == {"test"}
    assert tested.select("treatment", "goal").unique().sort("treatment").rows() == [
        ("reward_augmented", 7.0),
        ("untreated", None),
    ]


def test_changing_the_test_scores_does_not_change_the_goal():
    rows = goal_world()
    on_test = pl.col("split") == "test"
    changed = rows.with_columns(gold=pl.when(on_test).then(-pl.col("gold")).otherwise("gold"))
    assert picked_goals(changed, "gold") == picked_goals(rows, "gold")


def test_goal_without_validation_or_without_test_responses_is_refused():
    rows = goal_world()
    with pytest.raises(ValueError, match="reward_augmented answered no validation prompt"):
        picked_goals(rows.filter(pl.col("split") == "test"), "gold")
    untested = rows.filter(~((pl.col("split") == "test") & (pl.col("goal") == 7.0)))
    with pytest.raises(ValueError, match=r"no test response of \{'reward_augmented': 7.0\}"):
        at_goals(untested, picked_goals(untested, "gold"))


def test_goals_measured_on_different_prompts_are_refused():
    rows = goal_world()
    prompt = rows["prompt_group"].min()
    gap = rows.filter(~((pl.col("goal") == 4.0) & (pl.col("prompt_group") == prompt)))
    with pytest.raises(ValueError, match="different prompts under its goals"):
        picked_goals(gap, "gold")


def test_first_judge_that_scored_picks():
    assert judges_of(goal_world()) == ["gold"]
    assert judges_of(judged(judged_rows("untreated", [[[1.0]]], judge="reward"))) == ["reward"]
    with pytest.raises(ValueError, match="no judge"):
        judges_of(JudgedResponses.create_empty())


def test_control_by_hand():
    # Two prompts; means 1, 2, 4 by goal. The range: (4.5 - .5 + 3.5 - 1.5) / 2 = 3.
    by_goal = {1.0: [0.5, 1.5], 5.0: [2.0, 2.0], 9.0: [4.5, 3.5]}
    parts = [judged_rows("p", [[[a]], [[b]]], goal=goal) for goal, (a, b) in by_goal.items()]
    [row] = goal_control(judged(*parts), "gold", **RESAMPLING)
    assert (row["goals"], row["spearman"], row["range"]) == (3, 1.0, 3.0)
    curve = goal_curve(judged(*parts), "gold", **RESAMPLING)
    assert [(point["goal"], point["mean"]) for point in curve] == [(1.0, 1.0), (5.0, 2.0), (9.0, 4.0)]


def test_policy_that_knows_no_goals_does_not_follow_them():
    rows = {row["treatment"]: row for row in goal_control(goal_world(), "gold", **RESAMPLING)}
    assert rows["reward_augmented"]["range_low"] > 4
    assert rows["untreated"]["range_low"] < 0 < rows["untreated"]["range_high"]
    assert rows["untreated"]["goals"] == len(GOALS)
