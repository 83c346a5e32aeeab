"""Exact and near duplicates, clustered rather than dropped, and the contradictions among them."""

import dataframely as dy
import polars as pl

from preflow.schemas import hash_column, pair_id_column


class DuplicateClusters(dy.Schema):
    """One row per comparison: which others say the same, exactly or nearly."""

    pair_id = pair_id_column()
    exact_cluster = hash_column("Hash of the normalised prompt and the two normalised responses, in either order.")
    near_cluster = hash_column("Least pair_id of the connected near-duplicates (estimated Jaccard of word shingles).")
    n_exact = dy.Int64(min=1, description="Comparisons in the exact cluster.")
    n_near = dy.Int64(min=1, description="Comparisons in the near cluster.")

    @dy.rule()
    def near_contains_exact(cls) -> pl.Expr:
        """An exact duplicate is also a near one."""
        return pl.col("n_near") >= pl.col("n_exact")


class Contradictions(dy.Schema):
    """Comparisons of one exact cluster whose majorities oppose each other, and annotators who oppose themselves."""

    pair_id = pair_id_column()
    other_pair_id = dy.String(primary_key=True, description="The comparison it contradicts; itself for a split vote.")
    kind = dy.Enum(["mirrored", "same_order", "own_vote"], description="How the two rows contradict.")
    detail = dy.String(description="The two verdicts in words.")
