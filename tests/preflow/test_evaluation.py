import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from preflow.evaluation import (
    bootstrap_interval,
    correctness,
    evaluate,
    expected_calibration_error,
    mcnemar,
    paired_bootstrap,
)


def test_mcnemar_on_two_models_that_cannot_be_told_apart():
    # n = 358, discordant 4 to 3: two-sided exact binomial, P(|X - 3.5| >= 0.5) = 1.
    first = np.array([1] * 4 + [0] * 3 + [1] * 351)
    second = np.array([0] * 4 + [1] * 3 + [1] * 351)
    assert mcnemar(first, second) == {"only_first": 4, "only_second": 3, "p_value": 1.0}
    assert mcnemar(first, first)["p_value"] == 1.0


def test_mcnemar_by_hand():
    # 9 to 1: 2 (C(10,0) + C(10,1)) / 2^10 = 22 / 1024.
    first, second = np.array([1] * 9 + [0]), np.array([0] * 9 + [1])
    assert mcnemar(first, second)["p_value"] == pytest.approx(22 / 1024)


def test_row_bootstrap_agrees_with_the_normal_interval():
    values = (np.arange(400) % 4 != 0).astype(float)  # mean 3/4
    interval = bootstrap_interval(values, None, rounds=4000, seed=0)
    half = norm.ppf(0.975) * math.sqrt(0.75 * 0.25 / 400)
    assert interval.unit == "row"
    assert interval.estimate == 0.75
    assert (interval.low, interval.high) == pytest.approx((0.75 - half, 0.75 + half), abs=0.006)


def test_cluster_bootstrap_is_as_wide_as_the_clusters_are_few():
    # Every cluster of 25 is all right or all wrong, so 400 rows say as much as 16: standard error x 5.
    values = np.repeat([1.0, 1, 1, 0] * 4, 25)
    clusters = np.repeat(np.arange(16), 25)
    wide = bootstrap_interval(values, clusters, rounds=4000, seed=0)
    narrow = bootstrap_interval(values, None, rounds=4000, seed=0)
    assert wide.unit == "cluster"
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(5, rel=0.1)


def test_few_clusters_fall_to_rows_and_say_so():
    values = np.repeat([1.0, 0.0], 50)
    clusters = np.repeat(np.arange(5), 20)
    assert bootstrap_interval(values, clusters, rounds=2000, seed=0).unit == "row"


def test_interval_covers_the_truth_at_about_its_level():
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(100):
        values = (rng.random(150) < 0.7).astype(float)
        interval = bootstrap_interval(values, None, rounds=2000, seed=seed)
        hits += interval.low <= 0.7 <= interval.high
    assert 88 <= hits <= 99


def test_paired_bootstrap_is_narrower_than_unpaired_where_the_two_agree():
    rng = np.random.default_rng(1)
    second = (rng.random(500) < 0.6).astype(float)
    first = np.where(rng.random(500) < 0.05, 1.0, second)
    interval = paired_bootstrap(first, second, None, rounds=2000, seed=0)
    assert 0 < interval.low < interval.estimate == pytest.approx(first.mean() - second.mean())
    with pytest.raises(ValueError, match="same rows"):
        paired_bootstrap(first, second[1:], None, rounds=2000, seed=0)


@pytest.mark.parametrize(
    ("values", "rounds", "message"),
    [([], 2000, "got 0"), ([1.0, math.nan], 2000, "not all finite"), ([1.0, 0.0], 100, "at least 2000")],
)
def test_bootstrap_refuses_what_it_cannot_use(values, rounds, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(np.array(values), None, rounds=rounds, seed=0)


def test_calibration_error_by_hand():
    # Two bins of two: confidence .6 with outcome .5, confidence .9 with outcome 1: (.1 + .1) / 2.
    error, table = expected_calibration_error(np.array([0.9, 0.6, 0.9, 0.6]), np.array([1, 0, 1, 1]), bins=2)
    assert error == pytest.approx(0.1)
    assert table["n"].to_list() == [2, 2]
    assert table["confidence"].to_list() == pytest.approx([0.6, 0.9])
    assert table["outcome"].to_list() == [0.5, 1.0]


def test_calibrated_predictions_have_a_small_error_and_overconfident_ones_a_large_one():
    rng = np.random.default_rng(0)
    probability = rng.uniform(0.5, 1, 20_000)
    outcome = rng.random(20_000) < probability
    assert expected_calibration_error(probability, outcome, bins=10)[0] < 0.01
    assert expected_calibration_error(np.full(20_000, 0.99), outcome, bins=10)[0] > 0.2


def test_a_tie_is_half_right():
    assert correctness(np.array([2.0, -0.1, 0.0])).tolist() == [1, 0, 0.5]


def table(n=200):
    """Train and test in turn; chosen is the longer one in 3 of 4 pairs; a perfect and confident model."""
    i = np.arange(n)
    longer = i % 4 != 3
    pairs = pl.DataFrame(
        {
            "pair_id": [f"{k:032x}" for k in i],
            "chosen": np.where(longer, "long text", "short").tolist(),
            "rejected": np.where(longer, "short", "long text").tolist(),
            "chosen_is": np.where(i % 3 == 0, "a", "b").tolist(),
            "vote_share": np.ones(n),
            "prompt_group": [f"{k // 4:032x}" for k in i],
            "split": np.where(i < n // 2, "train", "test").tolist(),
        }
    )
    rewards = pl.DataFrame({"pair_id": pairs["pair_id"], "reward_chosen": np.full(n, 2.0), "reward_rejected": 0.0})
    return pairs, rewards.with_columns(probability=pl.lit(1 / (1 + math.exp(-2))))


def test_a_side_that_always_wins_is_no_baseline():
    pairs, predictions = table()
    listed_first = pairs.with_columns(chosen_is=pl.lit("a"))
    result = evaluate(predictions, listed_first, bootstrap=2000, bins=10, seed=0)["test"]
    assert result["majority"]["accuracy"]["estimate"] == 0.5


def test_evaluation_worked_by_hand():
    pairs, predictions = table()
    result = evaluate(predictions, pairs, bootstrap=2000, bins=10, seed=0)["test"]
    assert result["n_pairs"] == 100
    assert result["model"]["accuracy"]["estimate"] == 1
    assert result["model"]["log_loss"]["estimate"] == pytest.approx(math.log1p(math.exp(-2)))
    assert result["model"]["ece"] == pytest.approx(1 - 1 / (1 + math.exp(-2)))
    assert result["longer"]["accuracy"]["estimate"] == result["length"]["accuracy"]["estimate"] == 0.75
    # Length alone, fitted on pairs of one single length ratio, can only learn the base rate 3/4: its entropy.
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert result["length"]["log_loss"]["estimate"] == pytest.approx(entropy, abs=1e-4)
    assert result["majority"]["accuracy"]["estimate"] == pytest.approx(0.67)  # always b
    assert result["model_minus_length"]["estimate"] == 0.25
    assert result["model_minus_length"]["only_first"] == 25
    assert result["model_minus_length"]["unit"] == "cluster"


def test_evaluation_repeats_to_the_same_numbers_in_any_order():
    pairs, predictions = table()
    first = evaluate(predictions, pairs, bootstrap=2000, bins=10, seed=3)
    assert evaluate(predictions.reverse(), pairs.reverse(), bootstrap=2000, bins=10, seed=3) == first


def test_evaluation_refuses_gaps():
    pairs, predictions = table()
    with pytest.raises(ValueError, match="1 of 200 pairs have no prediction"):
        evaluate(predictions[1:], pairs, bootstrap=2000, bins=10, seed=0)
    with pytest.raises(ValueError, match="no train pair"):
        evaluate(predictions, pairs.filter(pl.col("split") == "test"), bootstrap=2000, bins=10, seed=0)
