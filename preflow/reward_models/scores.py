"""Every response scored by every reward, and where the rewards disagree."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from scipy.special import expit

from preflow.reward_models.schemas import RewardScores
from preflow.reward_models.scorer import Scorer


def reward_scores(comparisons: pl.DataFrame, scorers: Mapping[str, Scorer]) -> pl.DataFrame:
    """`RewardScores` of the comparisons that each reward can read, sorted by pair_id and reward.

    A reward that compares is asked once a comparison, in both orders, so that its two rewards are opposite numbers.
    """
    parts = [RewardScores.create_empty().drop("disagreement"), *(_by(comparisons, *named) for named in scorers.items())]
    return _with_disagreement(pl.concat(parts, how="vertical_relaxed"))


def held_out_scores(scores: pl.DataFrame, held_out: pl.DataFrame) -> pl.DataFrame:
    """`RewardScores` in which the rows of `held_out` (the same columns) stand in for those of the same pair and reward.

    A reward that was fitted on a pair vouches for its label, right or wrong; one that never saw it does not.
    """
    others = scores.drop("disagreement").join(held_out, on=["pair_id", "reward"], how="anti")
    return _with_disagreement(pl.concat([others, held_out.select(others.columns)], how="vertical_relaxed"))


def scored_pairs(scores: pl.LazyFrame, labels: pl.LazyFrame, *, reward: str) -> pl.LazyFrame:
    """pair_id, reward_chosen, reward_rejected and probability (of chosen) of the labelled pairs that `reward` scored.

    `labels` has the columns pair_id and chosen_is, a or b.
    """
    a = pl.col("chosen_is") == "a"
    p = pl.col("probability_a")
    return (
        scores.filter(pl.col("reward") == reward)
        .join(labels.select("pair_id", "chosen_is"), on="pair_id")
        .select(
            "pair_id",
            reward_chosen=pl.when(a).then("reward_a").otherwise("reward_b"),
            reward_rejected=pl.when(a).then("reward_b").otherwise("reward_a"),
            probability=pl.when(a).then(p).otherwise(1 - p),
        )
    )


def out_of_fold(predictions: pl.LazyFrame, pairs: pl.LazyFrame, *, reward: str) -> pl.DataFrame:
    """`RewardScores` without `disagreement`, of the predictions of one reward (`RewardPredictions`) for these pairs."""
    a = pl.col("chosen_is") == "a"
    p = pl.col("probability")
    nothing = pl.lit(None, dtype=pl.Float64)
    return (
        predictions.join(pairs.select("pair_id", "chosen_is"), on="pair_id")
        .select(
            "pair_id",
            reward=pl.lit(reward),
            reward_a=pl.when(a).then("reward_chosen").otherwise("reward_rejected"),
            reward_b=pl.when(a).then("reward_rejected").otherwise("reward_chosen"),
            probability_a=pl.when(a).then(p).otherwise(1 - p),
            probability_a_first=nothing,
            probability_a_second=nothing,
        )
        .collect()
    )


def _with_disagreement(scores: pl.DataFrame) -> pl.DataFrame:
    several = pl.len().over("pair_id") > 1
    spread = pl.col("probability_a").std(ddof=0).over("pair_id").clip(0, 0.5)
    return RewardScores.cast(scores.with_columns(disagreement=pl.when(several).then(spread)).sort("pair_id", "reward"))


def _by(comparisons: pl.DataFrame, name: str, scorer: Scorer) -> pl.DataFrame:
    """RewardScores of one reward without `disagreement`."""
    sides = [
        comparisons.select("prompt", response=response, reference=reference)
        for response, reference in (("response_a", "response_b"), ("response_b", "response_a"))
    ]
    orders = scorer.in_both_orders(sides[0])
    first = scorer.rewards(sides[0])
    second = scorer.rewards(sides[1]) if orders is None else -first
    shown = np.full((len(first), 2), np.nan) if orders is None else orders
    found = comparisons.select("pair_id").with_columns(
        reward=pl.lit(name),
        reward_a=pl.Series(first),
        reward_b=pl.Series(second),
        probability_a=pl.Series(expit(first - second)),
        probability_a_first=pl.Series(shown[:, 0]).fill_nan(None),
        probability_a_second=pl.Series(shown[:, 1]).fill_nan(None),
    )
    return found.filter(pl.col("reward_a").is_not_nan(), pl.col("reward_b").is_not_nan())
