"""Rewards asked about the items of published benchmarks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from preflow.reward_benchmark.official import official_scores
from preflow.reward_benchmark.published import read_benchmarks
from preflow.reward_models.scorer import Scorer


def published_scores(
    folder: Path, scorers: Callable[[], Mapping[str, Scorer]], *, rounds: int, seed: int
) -> dict[str, Any]:
    """`official_scores` of each reward on the files of a folder, and the rows that were refused; none without files.

    The rewards are opened only where there is something to ask them.
    """
    items, refused = read_benchmarks(folder)
    if items.is_empty():
        return {"refused": refused, "rewards": {}}
    margins = {name: item_margins(scorer, items) for name, scorer in scorers().items()}
    return {
        "refused": refused,
        "rewards": {name: official_scores(items, found, rounds=rounds, seed=seed) for name, found in margins.items()},
    }


def item_margins(scorer: Scorer, items: pl.DataFrame) -> np.ndarray:
    """Reward of chosen less that of rejected, each beside the other, [n]; NaN where a text cannot be read."""
    first, second = (
        scorer.rewards(items.select("prompt", response=one, reference=other))
        for one, other in (("chosen", "rejected"), ("rejected", "chosen"))
    )
    return np.asarray(first - second)
