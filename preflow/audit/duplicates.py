"""Exact and near duplicates, clustered rather than dropped, and the contradictions among them."""

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from preflow.audit import minhash
from preflow.audit.schemas import Contradictions, DuplicateClusters
from preflow.text import conversation, normalised, opening

PAIR_KEY = ["prompt_group", "low", "high"]
OPENINGS = (1, 8)  # words that tell most answers to one prompt apart, first by the cheaper look


def exact_clusters(comparisons: pl.LazyFrame) -> pl.LazyFrame:
    """Comparisons that are equal once normalised: the same prompt and the same two responses in either order.

    Texts are normalised whole only where prompt group and openings of the responses recur.

    Columns: pair_id, exact_cluster (the least pair_id of the cluster), n_exact, and `swapped`: whether the normalised
    response_a sorts after response_b, so that two rows of a cluster are mirrored where it differs.
    """
    columns = ["pair_id", "prompt_group", "response_a", "response_b"]
    recurring = comparisons.select(columns).filter(pl.col("prompt_group").is_duplicated())
    for words in OPENINGS:
        recurring = _recurring(recurring, words=words)
    shared = _ordered(recurring, normalised(pl.col("response_a")), normalised(pl.col("response_b"))).select(
        "pair_id",
        "swapped",
        exact_cluster=pl.col("pair_id").min().over(PAIR_KEY),
        n_exact=pl.len().over(PAIR_KEY).cast(pl.Int64),
    )
    return (
        comparisons.select("pair_id")
        .join(shared, on="pair_id", how="left")
        .select(
            "pair_id",
            pl.col("exact_cluster").fill_null(pl.col("pair_id")),
            pl.col("n_exact").fill_null(1),
            pl.col("swapped").fill_null(value=False),
        )
    )


def near_clusters(comparisons: pl.LazyFrame, *, threshold: float, num_perm: int, seed: int) -> pl.DataFrame:
    """Exact and near duplicates of every comparison, as `DuplicateClusters`.

    Two comparisons are near duplicates when each of their parts is: the prompts, and the responses matched in the
    better of the two orders, with an estimated Jaccard similarity of word shingles of at least `threshold`. So pairs
    that share one response, or only a long prompt, are not. Clusters are connected components.

    Raises ValueError if the threshold is outside (0, 1] or `num_perm` is too small for it.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold={threshold}: a Jaccard similarity above 0 and at most 1 is needed")
    exact = exact_clusters(comparisons).drop("swapped").collect()
    heads = exact.filter(pl.col("pair_id") == pl.col("exact_cluster")).select("pair_id").sort("pair_id")
    texts = heads.lazy().join(comparisons, on="pair_id", maintain_order="left")
    signature, parts = _part_signatures(texts, num_perm=num_perm, seed=seed)
    rows = minhash.rows_per_band(threshold, num_perm)
    edges = minhash.candidate_edges(signature, *parts, rows=rows)
    near = _components(len(heads), edges[_near(signature, parts, edges, threshold)])
    clusters = heads.with_columns(near_cluster=heads["pair_id"].gather(near))
    return DuplicateClusters.cast(
        exact.join(clusters.rename({"pair_id": "exact_cluster"}), on="exact_cluster", how="left")
        .with_columns(n_near=pl.len().over("near_cluster"))
        .sort("pair_id")
    )


def contradictions(comparisons: pl.LazyFrame, votes: pl.LazyFrame) -> pl.DataFrame:
    """Exact duplicates judged in opposite ways, and annotators who voted both ways on one pair: `Contradictions`.

    The verdict of a comparison is its majority (decided votes for a against b), or its gold where nobody voted. Every
    contradicting pair of comparisons appears once, under the lesser id.
    """
    verdicts = _verdicts(comparisons, votes)
    same_order = pl.col("swapped") == pl.col("swapped_other")
    there = pl.when(same_order).then(pl.lit("there")).otherwise(pl.lit("there, where a and b are exchanged"))
    between = (
        verdicts.join(verdicts, on="exact_cluster", suffix="_other")
        .filter(pl.col("pair_id") < pl.col("pair_id_other"), pl.col("low_wins") != pl.col("low_wins_other"))
        .select(
            "pair_id",
            other_pair_id="pair_id_other",
            kind=pl.when(same_order).then(pl.lit("same_order")).otherwise(pl.lit("mirrored")),
            detail=pl.format("{} here, {} {}", "verdict", "verdict_other", there),
        )
    )
    return Contradictions.cast(
        pl.concat([between, _own_contradictions(votes)]).sort("pair_id", "other_pair_id").collect()
    )


def _recurring(rows: pl.LazyFrame, *, words: int) -> pl.LazyFrame:
    """Rows whose prompt group and openings, in either order, occur more than once; equal hashes are let through."""
    said = [pl.col("prompt_group"), *(opening(pl.col(side), words=words) for side in ("response_a", "response_b"))]
    keyed = rows.with_columns(key=pl.sum_horizontal(part.hash() for part in said))
    return keyed.filter(pl.col("key").is_duplicated()).drop("key")


def _ordered(rows: pl.LazyFrame, first: pl.Expr, second: pl.Expr) -> pl.LazyFrame:
    """Adds the two texts as `low` and `high` in sorted order, and whether that swapped them."""
    return (
        rows.with_columns(first=first, second=second)
        .with_columns(
            low=pl.min_horizontal("first", "second"),
            high=pl.max_horizontal("first", "second"),
            swapped=pl.col("first") > pl.col("second"),
        )
        .drop("first", "second")
    )


def _verdicts(comparisons: pl.LazyFrame, votes: pl.LazyFrame) -> pl.LazyFrame:
    """Decided comparisons of exact clusters of two or more: verdict, and whether the lesser text of the two wins."""
    lead = ((pl.col("choice") == "a").sum().cast(pl.Int64) - (pl.col("choice") == "b").sum()).sign()
    voted = votes.group_by("pair_id").agg(lead=lead)
    gold = pl.col("gold").cast(pl.String).replace_strict({"a": 1, "b": -1, "tie": 0}, return_dtype=pl.Int64)
    return (
        exact_clusters(comparisons)
        .filter(pl.col("n_exact") > 1)
        .join(comparisons.select("pair_id", gold=gold), on="pair_id")
        .join(voted, on="pair_id", how="left")
        .with_columns(lead=pl.coalesce("lead", "gold"))
        .filter(pl.col("lead") != 0)
        .select(
            "pair_id",
            "exact_cluster",
            "swapped",
            verdict=pl.when(pl.col("lead") > 0).then(pl.lit("a over b")).otherwise(pl.lit("b over a")),
            low_wins=(pl.col("lead") > 0) != pl.col("swapped"),
        )
    )


def _own_contradictions(votes: pl.LazyFrame) -> pl.LazyFrame:
    """Pairs on which some annotator voted for a and for b, with how many did."""
    both = votes.group_by("pair_id", "annotator").agg(
        opposed=(pl.col("choice") == "a").any() & (pl.col("choice") == "b").any()
    )
    return (
        both.filter("opposed")
        .group_by("pair_id")
        .agg(n=pl.len())
        .select(
            "pair_id",
            other_pair_id="pair_id",
            kind=pl.lit("own_vote"),
            detail=pl.format("annotators who voted for a and for b: {}", "n"),
        )
    )


def _part_signatures(
    heads: pl.LazyFrame, *, num_perm: int, seed: int
) -> tuple[minhash.Signatures, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Signatures of the distinct texts, and for prompt, response_a and response_b of each row which is theirs."""
    sides = {"prompt": conversation(pl.col("prompt")), "a": pl.col("response_a"), "b": pl.col("response_b")}
    texts = heads.select(**sides).select(normalised(pl.col(side)) for side in sides).collect()
    column = pl.concat(texts.get_columns())
    first = column.to_frame("text").with_row_index().select(pl.col("index").min().over("text")).to_series().to_numpy()
    starts, codes = np.unique(first, return_inverse=True)
    prompt, a, b = codes.reshape(3, -1)
    return minhash.signatures(column.gather(starts), num_perm=num_perm, seed=seed), (prompt, a, b)


def _near(
    signature: minhash.Signatures,
    parts: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    edges: NDArray[np.int64],
    threshold: float,
) -> NDArray[np.bool_]:
    """Which candidate edges join near duplicates: all three parts similar, the responses in their better order."""
    verified = np.empty(len(edges), dtype=bool)
    for start in range(0, len(edges), minhash.CHUNK):
        left, right = edges[start : start + minhash.CHUNK].T
        prompt, a, b = (signature[part[left]] for part in parts)
        other_prompt, other_a, other_b = (signature[part[right]] for part in parts)
        straight = np.minimum(minhash.similarity(a, other_a), minhash.similarity(b, other_b))
        crossed = np.minimum(minhash.similarity(a, other_b), minhash.similarity(b, other_a))
        responses = np.maximum(straight, crossed)
        verified[start : start + minhash.CHUNK] = (
            np.minimum(minhash.similarity(prompt, other_prompt), responses) >= threshold
        )
    return verified


def _components(n: int, edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """The least member of each node's connected component."""
    graph = coo_array((np.ones(len(edges), dtype=bool), (edges[:, 0], edges[:, 1])), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    _, least = np.unique(label, return_index=True)
    return least[label]
