"""A panel of simulated annotators at work: who judges which pair, in which order, on a simulated clock."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from preflow.world.annotators import Annotator, cast_votes

Vote = dict[str, Any]

CLOCK_START = datetime(2026, 1, 5, 9, tzinfo=UTC)
SECONDS, CARELESS_SECONDS = 25.0, 3.0  # median time spent on a vote


def panel_votes(
    pairs: pl.DataFrame, annotators: Sequence[Annotator], votes_per_pair: Sequence[int], rng: np.random.Generator
) -> list[list[Vote]]:
    """The votes on each pair, in the order of `annotators`, as Preflow's own format has them.

    Each pair is judged by a random part of the panel, each annotator judges in a random order of their own.

    Parameters
    ----------
    pairs
        Columns response_a, response_b, score_a and score_b (gold).
    votes_per_pair
        How many judge a pair: one of these numbers, each as likely.

    Raises
    ------
    ValueError
        A pair should have more votes than there are annotators, or none.
    """
    if not 0 < min(votes_per_pair) <= max(votes_per_pair) <= len(annotators):
        raise ValueError(f"votes_per_pair {list(votes_per_pair)} must lie between 1 and {len(annotators)} annotators")
    n = len(pairs)
    panels = [set(rng.permutation(len(annotators))[: rng.choice(votes_per_pair)].tolist()) for _ in range(n)]
    votes: list[list[Vote]] = [[] for _ in range(n)]
    for number, annotator in enumerate(annotators):
        mine = [int(i) for i in rng.permutation(n) if number in panels[i]]
        for i, vote in zip(mine, timed_votes(annotator, pairs[mine], rng), strict=True):
            votes[i].append(vote)
    return votes


def timed_votes(annotator: Annotator, pairs: pl.DataFrame, rng: np.random.Generator) -> list[Vote]:
    """One annotator's votes on `pairs`, in that order, on a simulated clock; careless votes are fast ones."""
    seen = pairs.with_columns(shown_first=rng.choice(["a", "b"], size=len(pairs)))
    cast = cast_votes(annotator, seen, rng)
    medians = np.where(cast["careless"], CARELESS_SECONDS, SECONDS)
    seconds = np.round(medians * rng.lognormal(sigma=0.4, size=len(pairs)), 1)
    clock = [CLOCK_START + timedelta(seconds=int(t)) for t in np.cumsum(np.ceil(seconds))]
    return [
        {
            "annotator": annotator.name,
            "annotator_kind": "model",
            "choice": choice,
            "strength": strength,
            "shown_first": shown_first,
            "time": time.isoformat(),
            "seconds": spent,
        }
        for choice, strength, shown_first, time, spent in zip(
            cast["choice"], cast["strength"], seen["shown_first"], clock, seconds.tolist(), strict=True
        )
    ]
