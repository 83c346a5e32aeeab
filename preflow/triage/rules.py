"""What to do with a pair: one ordered table of rules over the columns of `Triage`, the first that holds decides."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from preflow.reasons.schemas import CLASS_OF


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From where on a doubt counts.

    Raises
    ------
    ValueError
        A probability lies outside [0, 1], or `review` is above `relabel`: the surer case would come second.
    """

    relabel: float
    """suspected_flip from which the label should be turned."""
    review: float
    """suspected_flip from which a person should look."""
    too_hard: float
    """Held-out DPO loss from which a pair is beyond the model."""

    def __post_init__(self) -> None:
        if not 0 <= self.review <= self.relabel <= 1:
            raise ValueError(f"0 <= review <= relabel <= 1 is needed, not review={self.review}, relabel={self.relabel}")


@dataclass(frozen=True)
class Rule:
    """A recommendation and when it holds; where its condition is null it does not."""

    name: str
    recommendation: str
    holds: Callable[[Thresholds], pl.Expr]
    why: str


_ERRORS = [label for label, of in CLASS_OF.items() if of == "errors" and label != "careless_rating"]
_DIVERGING = pl.col("careful_class") == "diverging"

RULES = (
    Rule("contradicted", "review", lambda _: pl.col("contradicted"), "An exact duplicate is judged the other way."),
    Rule("repeated", "drop", lambda _: pl.col("repeated"), "Another row says the same."),
    Rule(
        "careless_outvoted",
        "relabel",
        lambda _: pl.col("careful_preferred").cast(pl.String) != pl.col("label").cast(pl.String),
        "Without careless annotators the others agree on something else.",
    ),
    Rule(
        "groups_oppose",
        "split_by_group",
        lambda _: _DIVERGING & pl.col("groups_oppose"),
        "People of different groups prefer different responses.",
    ),
    Rule(
        "errors_divide",
        "review",
        lambda _: _DIVERGING & pl.col("reasons").list.eval(pl.element().struct["label"].is_in(_ERRORS)).list.any(),
        "They differ over an error, which can be checked.",
    ),
    Rule(
        "likely_flip",
        "relabel",
        lambda t: pl.col("suspected_flip") >= t.relabel,
        "All evidence together says the other response.",
    ),
    Rule("diverging", "soft_label", lambda _: _DIVERGING, "Careful people differ: train on the share of their votes."),
    Rule("unlabelled", "review", lambda _: pl.col("label").is_null(), "Nothing says which response is better."),
    Rule("tie", "drop", lambda _: pl.col("label") == "tie", "Neither is better: no preference to learn."),
    Rule("doubtful", "review", lambda t: pl.col("suspected_flip") >= t.review, "The label may well be wrong."),
    Rule("too_hard", "drop", lambda t: pl.col("difficulty") >= t.too_hard, "Beyond this model: see selective_dpo.md."),
    Rule("agreed", "keep", lambda _: pl.lit(value=True), "No doubt."),
)
"""In the order in which they are asked."""


def decided_by(thresholds: Thresholds, *, of: str) -> pl.Expr:
    """The `name` or the `recommendation` of the first rule that holds, as a column of that name."""
    choice: pl.Expr = pl.lit(None, dtype=pl.String)
    for rule in reversed(RULES):
        choice = pl.when(rule.holds(thresholds)).then(pl.lit(getattr(rule, of))).otherwise(choice)
    return choice
