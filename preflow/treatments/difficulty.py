"""How hard each pair is for a model: its DPO loss under models that did not train on it.

Gao et al., "Principled Data Selection for Alignment: The Hidden Risks of Difficult Examples" (ICML 2025, arXiv
2502.09650): reference runs train on one half of the pairs and are evaluated on the other at several checkpoints; a
pair's validation loss is the mean over seeds and checkpoints. It stands in for the learned step, the first step after
which the pair stays learned. Training is the caller's: here halves go out, and losses come back as a table.

The key is the pair, not the prompt as in the official code, where the pairs of one prompt share one score. A ranking
belongs to the model that made it, so `scored_by` is part of the key. `docs/selective_dpo.md` has the rest.
"""

from collections.abc import Sequence
from itertools import combinations
from math import log

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from preflow.treatments.schemas import DifficultyScores, HeldOutLosses

NO_SIGNAL = 1e-3
"""Losses that near to ln 2 say that the models never left their reference."""


def halves(pair_ids: Sequence[str], *, seed: int) -> tuple[list[str], list[str]]:
    """Two complementary random halves of the pairs, sorted; the second has one more where their number is odd.

    Depends on the set of ids and the seed, not on their order. A run trains on one half and scores the other.

    Raises
    ------
    ValueError
        An id comes twice, or there are fewer than two.
    """
    ids = sorted(pair_ids)
    if len(ids) < 2 or len(set(ids)) < len(ids):
        raise ValueError(
            f"halves need two or more distinct pairs; got {len(ids)} ids, {len(set(ids))} of them distinct"
        )
    shuffled = np.random.default_rng(seed).permutation(ids).tolist()
    middle = len(ids) // 2
    return sorted(shuffled[:middle]), sorted(shuffled[middle:])


def difficulty_scores(losses: pl.DataFrame, *, scored_by: str, learned_margin: float) -> pl.DataFrame:
    """The difficulty of each pair, as `DifficultyScores` in order of pair_id.

    Parameters
    ----------
    losses
        `HeldOutLosses`: every pair at every checkpoint of every seed.
    scored_by
        Hash of the model's weights and of the scoring configuration; scores of another model do not carry over.
    learned_margin
        A pair counts as learned while beta * margin, from its mean loss over seeds, is above this.

    Raises
    ------
    ValueError
        A loss is missing, or every difficulty is ln 2 within 1e-3: untrained models rank nothing.
    """
    _check_complete(losses)
    by_seed = _by_seed(losses)
    learned = _learned_at(losses, log(1 + np.exp(-learned_margin)))
    rows = (
        by_seed.group_by("pair_id")
        .agg(
            difficulty=pl.col("loss").mean(),
            spread=pl.col("loss").std(),
            flip_suspicion=pl.col("wrong").min().clip(0, 1),
        )
        .join(learned, on="pair_id", how="left")
        .with_columns(scored_by=pl.lit(scored_by))
        .sort("pair_id")
    )
    if ((rows["difficulty"] - log(2)).abs() <= NO_SIGNAL).all():
        raise ValueError(
            f"all {len(rows)} difficulties are ln 2 within {NO_SIGNAL}: the models did not learn; train longer"
        )
    return DifficultyScores.cast(rows)


def seed_agreement(losses: pl.DataFrame) -> float:
    """Mean Spearman correlation of the difficulty between every two seeds: what a ranking is worth.

    Raises
    ------
    ValueError
        There is only one seed.
    """
    table = _by_seed(losses).pivot("seed", index="pair_id", values="loss", sort_columns=True).drop("pair_id")
    if table.width < 2:
        raise ValueError("agreement needs at least two seeds")
    return float(np.mean([spearmanr(table[one], table[two]).statistic for one, two in combinations(table.columns, 2)]))


def _by_seed(losses: pl.DataFrame) -> pl.DataFrame:
    """Means over the checkpoints of each pair and seed: loss, and P(label wrong) = 1 - sigmoid(margin)."""
    ordered = losses.sort(
        "pair_id", "seed", "checkpoint"
    )  # the same sums, to the last bit, in whatever order they come
    wrong = 1 - (-pl.col("loss")).exp()
    return ordered.group_by("pair_id", "seed", maintain_order=True).agg(pl.col("loss").mean(), wrong=wrong.mean())


def _learned_at(losses: pl.DataFrame, below: float) -> pl.DataFrame:
    """pair_id and the first checkpoint from which the mean loss over seeds stays below `below`; null for never."""
    means = losses.group_by("pair_id", "checkpoint").agg(pl.col("loss").mean())
    last_above = pl.col("checkpoint").filter(pl.col("loss") >= below).max().fill_null(0)
    learned = means.group_by("pair_id").agg(last=last_above, end=pl.col("checkpoint").max())
    return learned.select("pair_id", learned_at=pl.when(pl.col("last") < pl.col("end")).then(pl.col("last") + 1))


def _check_complete(losses: pl.DataFrame) -> None:
    HeldOutLosses.validate(losses, cast=True)
    runs = losses.select("seed", "checkpoint").unique()
    counts = losses.group_by("pair_id").len().filter(pl.col("len") < len(runs)).sort("pair_id")
    if losses.is_empty() or len(counts):
        lacking = (
            f"{len(counts)} pairs lack a loss, first {counts['pair_id'][0]}" if len(counts) else "there is no loss"
        )
        raise ValueError(
            f"{lacking}; every pair needs one for each of {len(runs)} seeds and checkpoints: finish the runs"
        )
