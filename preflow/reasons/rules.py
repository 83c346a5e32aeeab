"""Reasons by thresholds on the evidence: the transparent baseline of the tagger."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from preflow.reasons.schemas import CLASS_OF, DivergenceReasons, ReasonRemainders


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From where on a measured difference is called the reason."""

    length_ratio: float
    """Words of the longer response over those of the shorter, one added to each."""
    format_marks: float
    """Difference in log(1 + list items) + log(1 + other marks)."""
    reading_levels: float
    """Difference in school grades."""
    tone: float
    """Difference in log(1 + exclamation marks) + log(1 + emoji)."""
    fact_conflict: float
    """Share of numbers and names in one response only, times the overlap of the words."""
    repetition: float
    """Difference in the share of repeated three-word runs."""
    prompt_words: float
    """A longer prompt is not called underspecified."""
    overlap: float
    """Nor is one whose responses share more of their words than this."""


def tag_by_rule(evidence: pl.DataFrame, thresholds: Thresholds) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`DivergenceReasons` and `ReasonRemainders` of the diverging pairs of `evidence` (see `pair_evidence`).

    What careless votes alone made diverge has no other reason, and where a response refuses, its length and form follow
    from that and are no reasons of their own. Rules have no probability.
    """
    diverging = evidence.filter("diverges").sort("pair_id")
    tables = [
        diverging.filter(condition).select(
            "pair_id",
            label=pl.lit(label),
            probability=pl.lit(None, dtype=pl.Float64),
            evidence=pl.concat_str([_stated(name) for name in columns], separator=", "),
        )
        for label, (condition, columns) in _rules(thresholds).items()
    ]
    return reason_tables(pl.concat(tables), diverging.select("pair_id"), source="rule")


def reason_tables(found: pl.DataFrame, looked_at: pl.DataFrame, *, source: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`DivergenceReasons` and `ReasonRemainders`.

    Parameters
    ----------
    found
        Columns pair_id, label, probability and evidence.
    looked_at
        pair_id of every pair that the source looked at, `unexplained` where it has a probability for that, and
        `unreadable_answer` where it was told in words.
    """
    reasons = found.with_columns(
        pl.lit(source).alias("source"), pl.col("label").replace_strict(CLASS_OF).alias("class")
    ).sort("pair_id", "label")
    counts = found.group_by("pair_id").agg(n_causes=pl.len().cast(pl.Int64))
    remainders = looked_at.join(counts, on="pair_id", how="left").with_columns(
        pl.col("n_causes").fill_null(0), source=pl.lit(source)
    )
    if "unexplained" not in looked_at.columns:
        remainders = remainders.with_columns(unexplained=(pl.col("n_causes") == 0).cast(pl.Float64))
    if "unreadable_answer" not in looked_at.columns:
        remainders = remainders.with_columns(unreadable_answer=pl.lit(None, dtype=pl.String))
    return DivergenceReasons.cast(reasons), ReasonRemainders.cast(remainders.sort("pair_id"))


def _rules(at: Thresholds) -> dict[str, tuple[pl.Expr, list[str]]]:
    """Each cause with its condition and the columns that are its evidence."""
    careful = pl.col("only_doubtful") < 1
    comply = careful & (pl.col("gap_refusal") == 0) & (pl.col("both_refuse") == 0)
    few_words = pl.col("prompt_words") <= np.log1p(at.prompt_words)
    broken = (pl.col("gap_repetition") >= at.repetition) | (pl.col("gap_unfinished") > 0)
    return {
        "underspecification": (comply & few_words & (pl.col("overlap") <= at.overlap), ["prompt_words", "overlap"]),
        "verbosity": (comply & (pl.col("gap_length") >= np.log(at.length_ratio)), ["gap_length"]),
        "format": (comply & (pl.col("gap_format") >= at.format_marks), ["gap_format"]),
        "complexity": (comply & (pl.col("gap_reading_level") >= at.reading_levels), ["gap_reading_level"]),
        "aesthetic_taste": (comply & (pl.col("gap_tone") >= at.tone), ["gap_tone"]),
        "comply_refuse": (careful & (pl.col("gap_refusal") > 0), ["gap_refusal"]),
        "refuse_refuse": (careful & (pl.col("both_refuse") > 0), ["both_refuse"]),
        "hallucination": (comply & (pl.col("fact_conflict") >= at.fact_conflict), ["fact_conflict", "overlap"]),
        "degenerate_output": (comply & broken, ["gap_repetition", "gap_unfinished"]),
        "careless_rating": (~careful, ["only_doubtful", "doubtful_share"]),
    }


def _stated(name: str) -> pl.Expr:
    """The column's name and value in words; logarithms of counts are stated as what they count."""
    value = {
        "gap_length": ("length_ratio ", pl.col("gap_length").exp()),
        "prompt_words": ("prompt_words ", pl.col("prompt_words").exp() - 1),
    }.get(name, (f"{name} ", pl.col(name)))
    return pl.lit(value[0]) + value[1].round(2).cast(pl.String)
