"""Rewards on the same pairs: accuracy by source, paired tests, calibration, consistency, and what they lean to."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit
from scipy.stats import linregress

from preflow.evaluation import bootstrap_interval, correctness, expected_calibration_error
from preflow.reward.features import response_features
from preflow.reward_benchmark.subsets import MIN_PAIRS, accuracy_by_subset, differences, with_holm
from preflow.reward_models.scores import scored_pairs


def compare_rewards(
    scores: pl.DataFrame, pairs: pl.DataFrame, rewards: Sequence[str], *, rounds: int, bins: int, seed: int
) -> dict[str, Any]:
    """Records of each reward on the pairs that it read, and of each two on the pairs that both read.

    A tie in reward counts half, and is counted; the outcome of a probability is the share of the votes.

    Parameters
    ----------
    scores
        `RewardScores`.
    pairs
        `PreferencePairs`, none of which a reward was fitted on.
    """
    table = pairs.sort("pair_id")
    margins = {name: _margins(scores, table, name) for name in rewards}
    how = {"rounds": rounds, "seed": seed}
    return {
        "pairs": len(table),
        "rewards": {name: _one(name, margins[name], scores, table, bins=bins, **how) for name in rewards},
        "by_source": accuracy_by_subset(table, margins, "source", **how),
        "differences": with_holm(differences(margins, table["prompt_group"].to_numpy(), **how)),
    }


def _margins(scores: pl.DataFrame, table: pl.DataFrame, name: str) -> np.ndarray:
    """Reward of chosen less that of rejected, [n]; NaN where the reward read nothing."""
    found = scored_pairs(scores.lazy(), table.lazy(), reward=name).collect()
    joined = table.select("pair_id").join(found, on="pair_id", how="left", maintain_order="left")
    return (joined["reward_chosen"] - joined["reward_rejected"]).fill_null(np.nan).to_numpy()


def _one(
    name: str, margin: np.ndarray, scores: pl.DataFrame, table: pl.DataFrame, *, rounds: int, bins: int, seed: int
) -> dict[str, Any]:
    read = np.isfinite(margin)
    record: dict[str, Any] = {"read": int(read.sum()), "ties": int((margin[read] == 0).sum())}
    if record["read"] < MIN_PAIRS:
        return record | {"accuracy": None}
    rows, margin = table.filter(pl.Series(read)), margin[read]
    right, groups, share = correctness(margin), rows["prompt_group"].to_numpy(), rows["vote_share"].to_numpy()
    probability = expit(margin)
    confident = np.where(probability >= 0.5, probability, 1 - probability)
    outcome = np.where(probability >= 0.5, share, 1 - share)
    return record | {
        "accuracy": asdict(bootstrap_interval(right, groups, rounds=rounds, seed=seed)),
        "ece": expected_calibration_error(confident, outcome, bins=bins)[0],
        "order_consistency": _consistency(scores, rows, name),
        "leanings": {
            leaning: _leaning(margin, right, difference) for leaning, difference in _differences_of_texts(rows).items()
        },
    }


def _consistency(scores: pl.DataFrame, rows: pl.DataFrame, name: str) -> float | None:
    """Share of these pairs on which both orders name one response; None for a reward that sees no order."""
    orders = (
        scores.filter(pl.col("reward") == name).join(rows, on="pair_id", how="semi").drop_nulls("probability_a_first")
    )
    if orders.is_empty():
        return None
    first, second = (orders[column].to_numpy() for column in ("probability_a_first", "probability_a_second"))
    return float(np.mean(((first > 0.5) & (second > 0.5)) | ((first < 0.5) & (second < 0.5))))


def _differences_of_texts(rows: pl.DataFrame) -> dict[str, np.ndarray]:
    """Chosen less rejected: in doublings of the length, and in the logarithm of format marks."""
    chosen, rejected = (response_features(rows[side].to_list()) for side in ("chosen", "rejected"))
    marks = ("log_list_items", "log_markdown")
    lengths = [np.log2(rows[side].str.len_chars().to_numpy()) for side in ("chosen", "rejected")]
    formats = [sum((one[name] for name in marks), start=pl.Series([0.0])).to_numpy() for one in (chosen, rejected)]
    return {"length": lengths[0] - lengths[1], "format": formats[0] - formats[1]}


def _leaning(margin: np.ndarray, right: np.ndarray, difference: np.ndarray) -> dict[str, Any]:
    """Whether a reward goes after a property: how often it names the side with more of it, and the slope of its margin.

    `when_right` and `when_wrong` split the first by whether it named the labelled side; a tie names none and is not in
    `n`.
    """
    apart = (difference != 0) & (margin != 0)
    if apart.sum() < MIN_PAIRS or np.ptp(difference) == 0:
        return {"n": int(apart.sum()), "more": None}
    more = ((margin > 0) == (difference > 0))[apart]
    was_right = right[apart] == 1
    fit = linregress(difference, margin)
    half = 1.96 * float(np.nan_to_num(fit.stderr))  # NaN where the fit is perfect
    return {
        "n": int(apart.sum()),
        "more": float(more.mean()),
        "when_right": float(more[was_right].mean()) if was_right.any() else None,
        "when_wrong": float(more[~was_right].mean()) if (~was_right).any() else None,
        "slope": {"estimate": float(fit.slope), "low": float(fit.slope - half), "high": float(fit.slope + half)},
    }
