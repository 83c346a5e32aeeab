import numpy as np
import polars as pl
import pytest

from preflow.judges.rankings import rank_agreement, ranking, ranking_change, system_matches, without_divisive
from tests.preflow.feedback import comparison, comparisons

HOW = {"bootstrap": 2000, "seed": 0}


def matches(rows):
    """(system a, system b, score of a), each on a prompt of its own."""
    return pl.DataFrame(
        [(str(i), str(i), *row) for i, row in enumerate(rows)],
        schema=["pair_id", "prompt_group", "system_a", "system_b", "score_a"],
        orient="row",
    )


def test_two_systems_worked_by_hand():
    found = ranking(matches([("x", "y", 1.0)] * 7 + [("y", "x", 0.5)] * 2), None, **HOW)
    assert [row["system"] for row in found] == ["x", "y"]
    wins = 7 + 1 + 0.5, 1 + 0.5  # ties half, and half of the meeting that is added
    assert found[0]["rating"] - found[1]["rating"] == pytest.approx(np.log(wins[0] / wins[1]), abs=1e-6)
    assert found[0]["n"] == 9


def test_known_strengths_are_recovered_with_their_intervals():
    strength = {"p": 1.0, "q": 0.4, "r": -0.4, "s": -1.0}
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(3000):
        a, b = rng.choice(sorted(strength), 2, replace=False)
        rows.append((a, b, float(rng.random() < 1 / (1 + np.exp(strength[b] - strength[a])))))
    found = ranking(matches(rows), None, **HOW)
    assert [row["system"] for row in found] == ["p", "q", "r", "s"]
    assert all(row["rating"] == pytest.approx(strength[row["system"]], abs=0.15) for row in found)
    assert all(0.05 < row["high"] - row["low"] < 0.25 for row in found)


def test_dropping_divisive_prompts_turns_the_ranking_they_made():
    rows = [("x", "y", 1.0)] * 4 + [("x", "y", 0.0)] * 3
    scores = pl.DataFrame({"prompt_group": [str(i) for i in range(7)], "score": [9.0, 9.0, 1, 1, 1, 1, 1]})
    weights = without_divisive(scores, share=0.3, weight=0.0)
    assert weights.filter(pl.col("weight") == 0)["prompt_group"].to_list() == ["0", "1"]
    change = ranking_change(matches(rows), weights, **HOW)
    assert change["before"][0]["system"] == "x"
    assert change["after"][0]["system"] == "y"
    assert change["kendall_tau"] == -1
    half = ranking(matches(rows), without_divisive(scores, share=0.3, weight=0.5), **HOW)
    assert half[0]["rating"] == pytest.approx(half[1]["rating"]), "3 wins each"


def test_matches_are_of_two_named_systems():
    rows = [
        comparison("one", "a", "b", model_a="x", model_b="y"),
        comparison("two", "a", "b", model_a="x", model_b="x"),
        comparison("three", "a", "b", model_a="x"),
    ]
    verdicts = pl.DataFrame({"pair_id": [row["pair_id"] for row in rows], "verdict": "b", "swapped_verdict": None})
    found = system_matches(comparisons(rows), verdicts.with_columns(pl.col("swapped_verdict").cast(pl.String)))
    assert found.select("system_a", "system_b", "score_a").rows() == [("x", "y", 0.0)]


def test_agreement_of_rankings_needs_two_systems():
    assert rank_agreement([{"system": "x", "rating": 1.0}], [{"system": "x", "rating": 0.0}]) is None


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="no match of two named systems"):
        ranking(matches([]), None, **HOW)
    with pytest.raises(ValueError, match=r"share=1.5"):
        without_divisive(pl.DataFrame({"prompt_group": ["x"], "score": [1.0]}), share=1.5, weight=0.0)
    with pytest.raises(ValueError, match="10 bootstrap rounds"):
        ranking(matches([("x", "y", 1.0)]), None, bootstrap=10, seed=0)
