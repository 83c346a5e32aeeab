"""Systems ranked by a judge's verdicts, and how the ranking moves when divisive prompts count less or not at all.

Ratings are Bradley and Terry's (1952), found by Zermelo's iteration (Hunter, 2004) with a tie as half a win for each.
Intervals resample prompts. Of every two systems that met, one more meeting, tied, is counted: without it a system that
won every time would have no finite rating.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import kendalltau

from preflow.evaluation import MIN_ROUNDS
from preflow.judges.audit import with_decisions

_STEPS = 10_000
_CLOSE = 1e-6
Record = dict[str, Any]


def system_matches(comparisons: pl.LazyFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """pair_id, prompt_group, system_a, system_b and score_a (1, 0, a tie 1/2) of pairs judged of two named systems."""
    score = pl.col("decision").replace_strict({"a": 1.0, "b": 0.0, "tie": 0.5}, return_dtype=pl.Float64)
    known = comparisons.select("pair_id", "prompt_group", system_a="model_a", system_b="model_b").drop_nulls()
    judged = with_decisions(verdicts).drop_nulls("decision").lazy().select("pair_id", score_a=score)
    return known.join(judged, on="pair_id").filter(pl.col("system_a") != pl.col("system_b")).sort("pair_id").collect()


def without_divisive(divisiveness: pl.DataFrame, *, share: float, weight: float) -> pl.DataFrame:
    """prompt_group and weight: `weight` for the most divisive `share` of the prompts, 1 for the others.

    Parameters
    ----------
    divisiveness
        prompt_group and score, one row a pair; a prompt is as divisive as its pairs in the mean.
    weight
        0 removes the prompts.

    Raises
    ------
    ValueError
        `share` or `weight` is outside [0, 1].
    """
    if not (0 <= share <= 1 and 0 <= weight <= 1):
        raise ValueError(f"share={share} and weight={weight} must lie in [0, 1]")
    prompts = divisiveness.group_by("prompt_group").agg(pl.col("score").mean())
    ranked = prompts.sort(["score", "prompt_group"], descending=[True, False])
    low = pl.int_range(pl.len()) < int(share * len(ranked))
    return ranked.select("prompt_group", weight=pl.when(low).then(weight).otherwise(1.0)).sort("prompt_group")


def ranking(matches: pl.DataFrame, weights: pl.DataFrame | None, *, bootstrap: int, seed: int) -> list[Record]:
    """The systems from best to worst: system, rating (log odds against the average system), low, high, n.

    Parameters
    ----------
    matches
        As `system_matches` makes them.
    weights
        prompt_group and weight; a prompt that is not there counts fully. None: all count fully.

    Raises
    ------
    ValueError
        No match is left, or `bootstrap` is below MIN_ROUNDS.
    """
    rows = _weighted(matches, weights)
    if rows.is_empty():
        raise ValueError("no match of two named systems is left to rank; check model_a, model_b and the weights")
    if bootstrap < MIN_ROUNDS:
        raise ValueError(f"{bootstrap} bootstrap rounds are too few for stable ends; take at least {MIN_ROUNDS}")
    names = sorted({*rows["system_a"], *rows["system_b"]})
    wins = _wins(rows, names)
    rating = _ratings(wins.sum(0)[None])[0]
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(wins), np.full(len(wins), 1 / len(wins)), size=bootstrap)
    resampled = _ratings((drawn @ wins.reshape(len(wins), -1)).reshape(bootstrap, len(names), len(names)))
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    n = {name: int((rows["system_a"] == name).sum() + (rows["system_b"] == name).sum()) for name in names}
    order = sorted(range(len(names)), key=lambda i: (-rating[i], names[i]))
    return [
        {"system": names[i], "rating": float(rating[i]), "low": float(low[i]), "high": float(high[i]), "n": n[names[i]]}
        for i in order
    ]


def rank_agreement(one: list[Record], other: list[Record]) -> float | None:
    """Kendall's tau-b of the ratings of the systems in both rankings; None for fewer than two."""
    first, second = ({row["system"]: row["rating"] for row in ranked} for ranked in (one, other))
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2:
        return None
    return float(kendalltau([first[name] for name in shared], [second[name] for name in shared]).statistic)


def ranking_change(matches: pl.DataFrame, weights: pl.DataFrame, *, bootstrap: int, seed: int) -> Mapping[str, Any]:
    """`before`, `after` the weights, and `kendall_tau` between the two rankings."""
    before = ranking(matches, None, bootstrap=bootstrap, seed=seed)
    after = ranking(matches, weights, bootstrap=bootstrap, seed=seed)
    return {"before": before, "after": after, "kendall_tau": rank_agreement(before, after)}


def _weighted(matches: pl.DataFrame, weights: pl.DataFrame | None) -> pl.DataFrame:
    if weights is None:
        return matches.with_columns(weight=pl.lit(1.0))
    rows = matches.join(weights, on="prompt_group", how="left").with_columns(pl.col("weight").fill_null(1.0))
    return rows.filter(pl.col("weight") > 0)


def _wins(rows: pl.DataFrame, names: list[str]) -> np.ndarray:
    """Weighted wins of the row's system over the column's in each prompt, [prompts, systems, systems]."""
    number = {name: i for i, name in enumerate(names)}
    a, b = (np.array([number[name] for name in rows[f"system_{side}"]]) for side in "ab")
    prompts = np.unique(rows["prompt_group"].to_numpy(), return_inverse=True)[1]
    wins = np.zeros((prompts.max() + 1, len(names), len(names)))
    score, weight = rows["score_a"].to_numpy(), rows["weight"].to_numpy()
    np.add.at(wins, (prompts, a, b), score * weight)
    np.add.at(wins, (prompts, b, a), (1 - score) * weight)
    return wins


def _ratings(wins: np.ndarray) -> np.ndarray:
    """Log strengths, [rounds, systems], of mean 0, from wins [rounds, systems, systems]."""
    met = wins + wins.transpose(0, 2, 1) > 0
    wins = wins + met / 2
    meetings, total = wins + wins.transpose(0, 2, 1), wins.sum(2)
    strength = np.ones(total.shape)
    for _ in range(_STEPS):
        expected = (meetings / (strength[:, :, None] + strength[:, None, :])).sum(2)
        new = np.where(expected > 0, total / np.where(expected > 0, expected, 1), strength)
        new /= np.exp(np.log(new).mean(1, keepdims=True))
        moved = float(np.abs(np.log(new / strength)).max())
        strength = new
        if moved < _CLOSE:
            break
    return np.log(strength)
