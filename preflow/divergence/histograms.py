"""Votes as histograms over the five ordinal bins of a reward difference."""

import numpy as np
import polars as pl

from preflow.divergence.schemas import OUTCOMES, VoteHistograms

CLEAR = 2  # a strength from which a preference is clear: HelpSteer2's 2 and 3, MultiPref's "clearly"


def ballots(votes: pl.LazyFrame) -> pl.DataFrame:
    """One ballot per pair and annotator (columns pair_id, annotator, outcome), sorted by both.

    An annotator who voted several times on a pair (a judge asked in both orders) counts once, with what they mostly
    chose, a tie where nothing leads: differing from oneself is not a difference between people. The strength of the
    ballot is the least that the votes for that choice state; unstated where none of them says.
    """
    side = pl.col("choice").cast(pl.String)
    count = {name: (side == name).sum() for name in ("a", "b", "tie")}
    least = {f"strength_{name}": pl.col("strength").filter(side == name).min() for name in ("a", "b")}
    a_leads = (pl.col("a") > pl.col("b")) & (pl.col("a") > pl.col("tie"))
    b_leads = (pl.col("b") > pl.col("a")) & (pl.col("b") > pl.col("tie"))
    outcome = pl.when(a_leads).then(_outcome("a")).when(b_leads).then(_outcome("b")).otherwise(pl.lit("tie"))
    grouped = votes.group_by("pair_id", "annotator").agg(**count, **least)
    return grouped.select("pair_id", "annotator", outcome=outcome).sort("pair_id", "annotator").collect()


def vote_histograms(given: pl.DataFrame) -> pl.DataFrame:
    """`VoteHistograms` of `ballots`, sorted by pair id."""
    count = {name: (pl.col("outcome") == name).sum() for name in OUTCOMES}
    return VoteHistograms.cast(given.group_by("pair_id").agg(**count).sort("pair_id"))


def counts(histograms: pl.DataFrame) -> np.ndarray:
    """The counts as a matrix, [n, 7] float64, columns as OUTCOMES names them."""
    return histograms.select(OUTCOMES).to_numpy().astype(np.float64)


def share_a(matrix: np.ndarray) -> np.ndarray:
    """Share of the annotators for response_a, [n], a tie counting half, of counts [n, 7]."""
    value = np.array([0.0, 0.0, 0.5, 1.0, 1.0, 0.0, 1.0])
    return matrix @ value / matrix.sum(1)


def _outcome(side: str) -> pl.Expr:
    strength = pl.col(f"strength_{side}")
    stated = pl.when(strength >= CLEAR).then(pl.lit(f"{side}_clear")).otherwise(pl.lit(f"{side}_slight"))
    return pl.when(strength.is_null()).then(pl.lit(f"{side}_unstated")).otherwise(stated)
