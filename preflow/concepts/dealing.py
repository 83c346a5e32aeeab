"""Items dealt to splits, where a source has none."""

from collections.abc import Sequence

import numpy as np
import polars as pl

DEAL = ("train", "train", "test", "train", "train", "validation", "train", "test", "train", "train")
"""70/10/20 in every ten items that follow each other."""


def dealt_splits(labels: pl.Series, *, seed: int) -> pl.Series:
    """A split for each item, 70/10/20 overall, within each class to one item or two."""
    return dealt(labels, DEAL, seed=seed)


def dealt(labels: pl.Series, deal: Sequence[str], *, seed: int) -> pl.Series:
    """Items shuffled within their class, the classes one after the other, dealt in rotation."""
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(labels)), labels.rank("dense").to_numpy()))
    splits = np.empty(len(labels), dtype=object)
    splits[order] = np.array(deal)[(np.arange(len(labels)) + rng.integers(len(deal))) % len(deal)]
    return pl.Series("split", splits, dtype=pl.String)
