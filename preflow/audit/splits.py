"""Train, validation and test parts that never divide a prompt group or a near-duplicate cluster."""

import hashlib

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from preflow.audit.schemas import Splits
from preflow.text import normalised


def split_by_group(
    comparisons: pl.LazyFrame,
    clusters: pl.LazyFrame,
    *,
    validation_fraction: float,
    test_fraction: float,
    seed: int,
) -> pl.DataFrame:
    """A split for every comparison, as `Splits`, with the fractions met as closely as whole groups allow.

    Groups come in an order given by a seeded hash of their name, so it does not depend on the order of rows and
    changes little when feedback is added. Test, then validation, takes every group that brings it closer to its
    fraction; the rest is train. A response that recurs under unrelated prompts does not tie them together.

    Raises ValueError if the fractions leave nothing to train on, or there are fewer groups than splits to fill.
    """
    fractions = {"test": test_fraction, "validation": validation_fraction}
    if min(fractions.values()) < 0 or sum(fractions.values()) >= 1:
        raise ValueError(
            f"validation_fraction={validation_fraction} and test_fraction={test_fraction} must be at least 0 and add "
            "up to less than 1"
        )
    grouped = _split_groups(comparisons, clusters)
    sizes = dict(grouped["split_group"].value_counts().iter_rows())
    split = _assign(sizes, {name: fraction for name, fraction in fractions.items() if fraction > 0}, seed)
    return Splits.cast(grouped.with_columns(split=pl.col("split_group").replace_strict(split, return_dtype=pl.String)))


def leakage(comparisons: pl.LazyFrame, clusters: pl.LazyFrame, splits: pl.LazyFrame) -> dict[str, int]:
    """How many prompt groups, exact and near clusters, and distinct responses occur in more than one split.

    The first three are 0 for splits of `split_by_group`. Responses may recur under unrelated prompts ("Yes."), so
    their count is information, not an error.
    """
    keys = comparisons.select("pair_id", "prompt_group").join(clusters, on="pair_id").join(splits, on="pair_id")
    responses = pl.concat(
        comparisons.select("pair_id", response=normalised(pl.col(side))) for side in ("response_a", "response_b")
    ).join(splits, on="pair_id")
    return {
        "prompt_groups": _straddling(keys, "prompt_group"),
        "exact_clusters": _straddling(keys, "exact_cluster"),
        "near_clusters": _straddling(keys, "near_cluster"),
        "responses": _straddling(responses, "response"),
    }


def _straddling(rows: pl.LazyFrame, key: str) -> int:
    """How many values of `key` occur in more than one split."""
    spread = rows.group_by(key).agg(n=pl.col("split").n_unique()).select((pl.col("n") > 1).sum())
    return int(spread.collect().item())


def _split_groups(comparisons: pl.LazyFrame, clusters: pl.LazyFrame) -> pl.DataFrame:
    """pair_id and split_group: connected components of the graph that links prompt groups and near clusters."""
    rows = (
        comparisons.select("pair_id", "prompt_group")
        .join(clusters.select("pair_id", "near_cluster"), on="pair_id", how="left", validate="1:1")
        .sort("pair_id")
        .collect()
    )
    unknown = rows.filter(pl.col("near_cluster").is_null())
    if len(unknown):
        raise ValueError(
            f"{len(unknown)} comparisons have no cluster, first {unknown['pair_id'][0]}: cluster them first"
        )
    prompt, cluster = (
        np.unique(rows[name].to_numpy(), return_inverse=True)[1] for name in ("prompt_group", "near_cluster")
    )
    n = prompt.max(initial=-1) + cluster.max(initial=-1) + 2
    links = coo_array((np.ones(len(rows), dtype=bool), (prompt, prompt.max(initial=-1) + 1 + cluster)), shape=(n, n))
    _, label = connected_components(links, directed=False)
    named = rows.with_columns(label=pl.Series(label[prompt]))
    return named.select("pair_id", split_group=pl.col("prompt_group").min().over("label"))


def _assign(sizes: dict[str, int], fractions: dict[str, float], seed: int) -> dict[str, str]:
    """A split for every group: whole groups in hashed order, as close to the fractions as they allow."""
    if len(sizes) < len(fractions) + 1:
        raise ValueError(
            f"{len(sizes)} independent groups of comparisons cannot fill train, {' and '.join(fractions)}: prompts and "
            "near duplicates stay together, so add prompts or set a fraction to 0"
        )
    total, split = sum(sizes.values()), {}
    order = sorted(sizes, key=lambda group: hashlib.sha256(f"{seed}:{group}".encode()).digest())
    for still_to_fill, (name, fraction) in zip(range(len(fractions), 0, -1), fractions.items(), strict=True):
        target, filled = fraction * total, 0
        free = [group for group in order if group not in split]
        for group in free[: len(free) - still_to_fill]:
            if abs(filled + sizes[group] - target) < abs(filled - target):
                split[group] = name
                filled += sizes[group]
        if filled == 0:  # every group is more than twice the target: the smallest is the closest
            split[min(free, key=sizes.__getitem__)] = name
    return {group: split.get(group, "train") for group in order}
