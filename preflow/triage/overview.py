"""Triage at a glance: what is recommended for which agreement class, and the first pairs of every rule."""

from dataclasses import dataclass

import polars as pl

from preflow.text import conversation
from preflow.triage.review import review_queue
from preflow.triage.table import recommendation_counts


@dataclass(frozen=True)
class Overview:
    """What a page shows of triage."""

    rules: list[dict[str, object]]
    """How many comparisons each rule decided."""
    by_class: pl.DataFrame
    """See `recommended_by_class`."""
    suspicion: pl.Series
    """P(label is turned round) of every comparison, null where it has no preference."""
    examples: pl.DataFrame
    """See `first_of_each_rule`."""
    queue: pl.DataFrame
    """The beginning of the review queue, with full texts."""


def overview(table: pl.LazyFrame, comparisons: pl.LazyFrame, *, examples: int, queued: int) -> Overview:
    """`Triage` at a glance, with `examples` comparisons of each rule and the first `queued` of the review queue."""
    return Overview(
        recommendation_counts(table),
        recommended_by_class(table),
        table.select("suspected_flip").collect()["suspected_flip"],
        first_of_each_rule(table, comparisons, size=examples),
        review_queue(table, comparisons, size=queued),
    )


def recommended_by_class(table: pl.LazyFrame) -> pl.DataFrame:
    """How many comparisons of each agreement class get each recommendation: agreement_class, recommendation, pairs."""
    keys = pl.col("agreement_class", "recommendation").cast(pl.String)
    counts = table.group_by(keys).agg(pairs=pl.len().cast(pl.Int64))
    return counts.with_columns(pl.col("agreement_class").fill_null("no votes")).sort(pl.all()).collect()


def first_of_each_rule(table: pl.LazyFrame, comparisons: pl.LazyFrame, *, size: int) -> pl.DataFrame:
    """`Triage` with the text of the prompt, `size` comparisons a rule, those most worth a look first.

    Raises
    ------
    ValueError
        `size` is below 1.
    """
    if size < 1:
        raise ValueError(f"size={size}: at least one comparison of each rule must be shown")
    worth = pl.struct(-pl.col("expected_value"), "pair_id").rank("ordinal").over("rule")
    texts = comparisons.select("pair_id", prompt=conversation(pl.col("prompt")))
    shown = table.filter(worth <= size).join(texts, on="pair_id", how="left")
    return shown.sort(["expected_value", "pair_id"], descending=[True, False]).collect()
