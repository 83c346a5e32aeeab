"""Tables of the reasons for divergence; apart from their code, so that knowing them needs no statistics package.

The ten causes in four classes are those of Zhang et al. (ICML 2025, arXiv 2410.14632). The abstract confirms ten
categories in four classes; the names below are paraphrases. Of the errors, `hallucination` is documented;
`degenerate_output` and `careless_rating` stand for two further categories whose wording could not be verified.
"""

import dataframely as dy
import polars as pl

from preflow.schemas import pair_id_column

CLASS_OF = {
    "underspecification": "task",
    "verbosity": "style",
    "format": "style",
    "complexity": "style",
    "aesthetic_taste": "style",
    "comply_refuse": "refusals",
    "refuse_refuse": "refusals",
    "hallucination": "errors",
    "degenerate_output": "errors",
    "careless_rating": "errors",
}
"""Each cause with its class."""
UNVERIFIED = ("degenerate_output", "careless_rating")
"""Causes whose wording in the paper could not be verified."""

SOURCES = ("rule", "written_reason", "tagger", "endpoint")


def _source() -> dy.Enum:
    return dy.Enum(SOURCES, primary_key=True, description="What says so; every source speaks for itself.")


class DivergenceReasons(dy.Schema):
    """One row per diverging pair, source and cause that the source found; a pair may have several or none."""

    pair_id = pair_id_column()
    source = _source()
    label = dy.Enum(list(CLASS_OF), primary_key=True, description="The cause.")
    class_ = dy.Enum(sorted(set(CLASS_OF.values())), alias="class", description="The class of the cause.")
    probability = dy.Float64(
        nullable=True, min=0, max=1, description="Calibrated P(cause) of the tagger; null where a source has none."
    )
    evidence = dy.String(min_length=1, description="The measured numbers or the words that speak for the cause.")

    @dy.rule()
    def class_belongs_to_label(cls) -> pl.Expr:
        """A cause has one class."""
        return pl.col("label").cast(pl.String).replace_strict(CLASS_OF) == pl.col("class").cast(pl.String)


class ReasonRemainders(dy.Schema):
    """One row per diverging pair and source that looked at it: what it leaves unexplained."""

    pair_id = pair_id_column()
    source = _source()
    n_causes = dy.Int64(min=0, max=len(CLASS_OF), description="Causes that the source found.")
    unexplained = dy.Float64(
        min=0, max=1, description="P(no cause applies) of the tagger; elsewhere 1 where nothing was found, else 0."
    )
    unreadable_answer = dy.String(
        nullable=True, description="How the first answer of the endpoint began that was no list of causes; else null."
    )

    @dy.rule()
    def an_unreadable_answer_explains_nothing(cls) -> pl.Expr:
        """What was not read names no cause."""
        return pl.col("unreadable_answer").is_null() | (pl.col("n_causes") == 0)
