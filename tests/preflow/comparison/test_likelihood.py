import polars as pl
import pytest

from preflow.comparison.likelihood import drift_contrasts, drifts, implicit_accuracies
from tests.preflow.comparison.tables import logprobs

RESAMPLING = {"rounds": 2000, "seed": 0}


def test_planted_drift_of_good_rejected_responses_is_recovered():
    rows = logprobs({"untreated": -12, "reward_augmented": -3, "label_smoothed": -12})
    found = {row["treatment"]: row for row in drifts(rows, good_score=7.0, **RESAMPLING)}
    assert found["reward_augmented"]["n_pairs"] == 20  # of 40 train pairs every other is good
    assert found["reward_augmented"]["drift_rejected_low"] < -3 < found["reward_augmented"]["drift_rejected_high"]
    assert abs(found["untreated"]["drift_chosen"]) < 1
    smoothed, augmented = sorted(drift_contrasts(rows, good_score=7.0, **RESAMPLING), key=lambda row: row["difference"])
    assert augmented["difference_low"] < 9 < augmented["difference_high"]
    assert augmented["separable"]
    assert smoothed["treatment"] == "label_smoothed"
    assert not smoothed["separable"]


def test_only_good_rejected_train_responses_count():
    rows = logprobs({"untreated": -12, "start": 0})
    counted = (pl.col("split") == "train") & (pl.col("score_rejected") >= 7)
    changed = rows.with_columns(logp_rejected=pl.when(counted).then("logp_rejected").otherwise(-1e6))
    assert drifts(changed, good_score=7.0, **RESAMPLING) == drifts(rows, good_score=7.0, **RESAMPLING)


def test_without_scores_there_is_no_drift():
    rows = logprobs({"untreated": -12}).with_columns(score_rejected=pl.lit(None, pl.Float64))
    assert drifts(rows, good_score=7.0, **RESAMPLING) == []
    assert drift_contrasts(rows, good_score=7.0, **RESAMPLING) == []


def test_missing_baseline_is_refused():
    with pytest.raises(ValueError, match="no policy 'untreated'"):
        drift_contrasts(logprobs({"start": 0}), good_score=7.0, **RESAMPLING)


def test_policy_that_did_not_move_is_half_right():
    still = logprobs({"start": 0, "untreated": -12}).with_columns(
        pl.when(treatment="start").then(f"ref_logp_{side}").otherwise(f"logp_{side}").alias(f"logp_{side}")
        for side in ("chosen", "rejected")
    )
    start, untreated = implicit_accuracies(still, **RESAMPLING)
    assert (start["accuracy"], start["n_pairs"]) == (0.5, 40)
    assert untreated["accuracy"] > 0.95
