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


def opposing_groups(groups: pl.LazyFrame) -> pl.LazyFrame:
    """pair_id, cluster and preferred of the pairs on which one group prefers a and another prefers b."""
    preferred = pl.col("preferred").cast(pl.String)
    sides = groups.group_by("pair_id").agg(a=(preferred == "a").any(), b=(preferred == "b").any())
    opposed = sides.filter(pl.col("a") & pl.col("b")).select("pair_id")
    return groups.select("pair_id", "cluster", preferred=preferred).join(opposed, on="pair_id", how="semi")
