"""What groups of like-minded annotators prefer, pair by pair."""

import polars as pl

from preflow.divergence.histograms import ballots
from preflow.triage.schemas import GroupPreferences


def group_preferences(votes: pl.LazyFrame, clusters: pl.LazyFrame) -> pl.DataFrame:
    """`GroupPreferences`, sorted by pair and group; `clusters` is `AnnotatorClusters`.

    An annotator counts once a pair. Annotators without a group are left out.
    """
    given = ballots(votes).with_columns(side=pl.col("outcome").str.split("_").list.first())
    groups = clusters.drop_nulls("cluster").select("annotator", "cluster").collect()
    count = {side: (pl.col("side") == side).sum() for side in ("a", "b", "tie")}
    tally = given.join(groups, on="annotator").group_by("pair_id", "cluster").agg(n_annotators=pl.len(), **count)
    leads = {side: pl.col(side) > pl.max_horizontal({"a", "b", "tie"} - {side}) for side in ("a", "b")}
    preferred = pl.when(leads["a"]).then(pl.lit("a")).when(leads["b"]).then(pl.lit("b")).otherwise(pl.lit("tie"))
    rows = tally.select("pair_id", "cluster", "n_annotators", preferred=preferred)
    return GroupPreferences.cast(rows.sort("pair_id", "cluster"))


def opposed_pairs(groups: pl.LazyFrame) -> pl.LazyFrame:
    """pair_id of `GroupPreferences` in which one group prefers a and another b."""
    both = [(pl.col("preferred") == side).any() for side in ("a", "b")]
    return groups.group_by("pair_id").agg(both=both[0] & both[1]).filter("both").select("pair_id")
