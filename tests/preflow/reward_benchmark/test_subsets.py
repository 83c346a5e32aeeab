"""Rewards by the parts of one table."""

import numpy as np
import polars as pl
import pytest
from statsmodels.stats.multitest import multipletests

from preflow.evaluation import mcnemar
from preflow.reward_benchmark.subsets import accuracy_by_subset, with_holm

HOW = {"rounds": 2000, "seed": 0}


def given(seed=0, n=120):
    rng = np.random.default_rng(seed)
    pairs = pl.DataFrame({"prompt_group": [f"g{i // 2}" for i in range(n)], "topic": ["x", "y", "z"] * (n // 3)})
    good = np.where((pairs["topic"] == "x").to_numpy(), 1.0, np.where(rng.random(n) < 0.5, 1.0, -1.0))
    bad = np.where((pairs["topic"] == "x").to_numpy(), -1.0, good)
    return pairs, {"good": good, "bad": bad, "silent": np.full(n, np.nan)}


def test_a_reward_that_is_wrong_on_one_subset_is_found_there_alone():
    pairs, margins = given()
    found = accuracy_by_subset(pairs, margins, "topic", **HOW)
    assert {name: one["n"] for name, one in found["subsets"].items()} == {"x": 40, "y": 40, "z": 40}
    of_x = found["subsets"]["x"]["accuracy"]
    assert (of_x["good"]["estimate"], of_x["bad"]["estimate"], of_x["silent"]) == (1.0, 0.0, None)
    by = {row["subset"]: row for row in found["differences"]}
    assert set(by) == {"x", "y", "z"}
    assert (by["x"]["estimate"], by["y"]["estimate"], by["y"]["p_value"]) == (1.0, 0.0, 1.0)
    raw = mcnemar(np.ones(40), np.zeros(40))["p_value"]
    assert by["x"]["p_value"] == pytest.approx(multipletests([raw, 1.0, 1.0], method="holm")[1][0])


def test_rewards_that_are_alike_are_seldom_told_apart():
    """Negative control: of 40 tables of coins, at most one in ten has any corrected p-value below .05."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        pairs = given()[0]
        margins = {name: rng.normal(size=len(pairs)) for name in ("one", "other")}
        rows = accuracy_by_subset(pairs, margins, "topic", **HOW)["differences"]
        alarms += any(row["p_value"] < 0.05 for row in rows)
    assert alarms <= 4


def test_what_cannot_be_grouped_is_refused():
    pairs, margins = given()
    with pytest.raises(ValueError, match="column 'colour' is missing"):
        accuracy_by_subset(pairs, margins, "colour", **HOW)
    with pytest.raises(ValueError, match="'good' has 1 margins for 120 pairs"):
        accuracy_by_subset(pairs, {"good": np.ones(1)}, "topic", **HOW)


def test_holms_correction_by_hand():
    """Times 3, 2, 1 in rising order, never falling: 3 x .01, 2 x .02, and .03 raised to .04."""
    corrected = with_holm([{"p_value": p} for p in (0.03, 0.01, 0.02)])
    assert [row["p_value"] for row in corrected] == pytest.approx([0.04, 0.03, 0.04])
    assert with_holm([]) == []
