"""Rewards side by side on pairs of which it is known who is right."""

import numpy as np
import polars as pl
import pytest

from preflow.reward_benchmark.own_pairs import compare_rewards
from preflow.reward_models.schemas import RewardScores
from tests.preflow.treatments.conftest import frame, pair

N = 60


def given():
    """Sixty pairs: `right` is right throughout, `long` goes after length, `judge` says half of the time the first."""
    rows, scores = [], []
    for i in range(N):
        prompt = [{"role": "user", "content": f"question {i}"}]
        good, bad = f"good {i}" + " more" * (i % 3 == 0), f"bad {i}" + " words" * (i % 3 != 0)
        row = pair(prompt, good, bad, split="test")
        rows.append(row)
        long = 1.0 if len(good) > len(bad) else -1.0
        for name, margin, first, second in (
            ("right", 2.0, None, None),
            ("long", long, None, None),
            ("judge", 0.0, 0.9, 0.1) if i % 2 else ("judge", 1.0, 0.8, 0.7),
        ):
            if name == "long" and i >= 50:
                continue
            p = 1 / (1 + np.exp(-margin))
            scores.append({
                "pair_id": row["pair_id"], "reward": name,
                "reward_a": margin / 2, "reward_b": -margin / 2, "probability_a": p,
                "probability_a_first": first, "probability_a_second": second, "disagreement": 0.1,
            })  # fmt: skip
    return RewardScores.cast(pl.DataFrame(scores).sort("pair_id", "reward")), frame(rows)


@pytest.fixture(scope="module")
def found():
    scores, pairs = given()
    return compare_rewards(scores, pairs, ["right", "long", "judge"], rounds=2000, bins=5, seed=0)


def test_accuracy_ties_and_what_was_read(found):
    by = found["rewards"]
    assert found["pairs"] == N
    assert {name: one["read"] for name, one in by.items()} == {"right": N, "long": 50, "judge": N}
    assert by["right"]["accuracy"]["estimate"] == 1.0
    assert by["long"]["accuracy"]["estimate"] == pytest.approx(17 / 50)
    assert (by["judge"]["ties"], by["judge"]["accuracy"]["estimate"]) == (30, 0.75)
    assert found["by_source"]["subsets"]["test"]["accuracy"]["right"]["n"] == N


def test_a_judge_that_depends_on_the_order_is_seen(found):
    consistent = {name: one["order_consistency"] for name, one in found["rewards"].items()}
    assert consistent == {"right": None, "long": None, "judge": 0.5}


def test_a_reward_of_length_leans_to_length(found):
    long, right = (found["rewards"][name]["leanings"]["length"] for name in ("long", "right"))
    assert long["more"] == long["when_right"] == long["when_wrong"] == 1.0
    assert long["slope"]["low"] > 0
    assert right["more"] == pytest.approx(20 / 60)
    assert right["when_wrong"] is None
    assert right["slope"]["estimate"] == pytest.approx(0)
    assert found["rewards"]["right"]["leanings"]["format"] == {"n": 0, "more": None}


def test_two_rewards_are_compared_on_the_pairs_that_both_read(found):
    rows = {(row["first"], row["second"]): row for row in found["differences"]}
    assert rows["right", "long"]["n"] == 50
    assert rows["right", "long"]["estimate"] == pytest.approx(33 / 50)
    assert (rows["right", "long"]["only_first"], rows["right", "long"]["only_second"]) == (33, 0)
    assert rows["right", "long"]["p_value"] < 1e-6
    assert rows["right", "judge"]["n"] == N


def test_the_order_of_rows_changes_nothing(found):
    scores, pairs = given()
    again = compare_rewards(scores[::-1], pairs[::-1], ["right", "long", "judge"], rounds=2000, bins=5, seed=0)
    assert again == found


def test_too_few_pairs_have_no_accuracy():
    scores, pairs = given()
    few = compare_rewards(scores, pairs[:5], ["right", "long"], rounds=2000, bins=5, seed=0)
    assert {name: one["accuracy"] for name, one in few["rewards"].items()} == {"right": None, "long": None}
    assert few["differences"] == []


def test_a_tie_leans_to_neither_side(found):
    judge, right = (found["rewards"][name]["leanings"]["length"] for name in ("judge", "right"))
    assert (right["n"], judge["n"]) == (N, N - found["rewards"]["judge"]["ties"])
    assert judge["more"] == pytest.approx(10 / 30)
