import json

import polars as pl
import pytest

from preflow.comparison.schemas import JudgedResponses
from preflow.comparison.summary import not_measured, summarise_comparison
from tests.preflow.comparison.tables import goal_world, logprobs, no_logprobs, no_verdicts, verdicts, world

SETTINGS = {"good_score": 7.0, "rounds": 2000, "seed": 0}


def inputs():
    drift = logprobs({"untreated": -12, "reward_augmented": -3})
    both = goal_world().with_columns(reward=pl.col("gold") / 5 - 1)
    return both, verdicts([1.0, 0.0, 0.5] * 8), drift


def test_summary_is_flat_json_with_every_judge():
    summary = summarise_comparison(*inputs(), **SETTINGS)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    lists = {name: value for name, value in summary.items() if name not in ("judges", "good_score")}
    assert len(lists) == 10
    for records in lists.values():
        assert records
        assert not [value for record in records for value in record.values() if isinstance(value, list | dict)]
    assert summary["judges"] == ["gold", "reward", "endpoint"]
    assert {row["judge"] for row in summary["contrasts"]} == set(summary["judges"])


def test_reward_judges_at_the_goal_that_gold_picked():
    judged, *others = inputs()
    opposite = judged.with_columns(reward=-pl.col("gold"))
    summary = summarise_comparison(opposite, *others, **SETTINGS)
    goals = {row["judge"]: row["goal"] for row in summary["policies"] if row["treatment"] == "reward_augmented"}
    assert goals == {"gold": 7.0, "reward": 7.0}
    gold, reward = (row["difference"] for row in summary["contrasts"] if row["judge"] != "endpoint")
    assert reward == pytest.approx(-gold)


def test_order_of_rows_does_not_matter_and_figures_repeat_to_the_last_digit():
    tables = inputs()
    first = json.dumps(summarise_comparison(*tables, **SETTINGS))
    shuffled = [table.sample(fraction=1, shuffle=True, seed=3) for table in tables]
    assert json.dumps(summarise_comparison(*shuffled, **SETTINGS)) == first


def test_optional_tables_may_be_empty():
    summary = summarise_comparison(world({"untreated": 0, "start": -1}), no_verdicts(), no_logprobs(), **SETTINGS)
    assert summary["judges"] == ["gold"]
    assert summary["drift"] == summary["drift_contrasts"] == summary["accuracy"] == summary["goal_curve"] == []
    assert summary["position_bias"] == []


def test_what_cannot_be_compared_is_refused():
    without = world({"start": 0, "random_share": 0})
    with pytest.raises(ValueError, match="no policy 'untreated'"):
        summarise_comparison(without, no_verdicts(), no_logprobs(), **SETTINGS)
    with pytest.raises(ValueError, match="not_measured"):
        summarise_comparison(JudgedResponses.create_empty(), no_verdicts(), no_logprobs(), **SETTINGS)
    twice = world({"untreated": 0, "start": 0}, prompts=3)
    with pytest.raises(ValueError, match="2 responses share their key"):
        summarise_comparison(pl.concat([twice, twice[:1]]), no_verdicts(), no_logprobs(), **SETTINGS)
    with pytest.raises(ValueError, match="at least 2000"):
        summarise_comparison(twice, no_verdicts(), no_logprobs(), **SETTINGS | {"rounds": 100})


def test_not_measured_says_why():
    assert not_measured("no policy was trained") == {"not_measured": "no policy was trained"}
