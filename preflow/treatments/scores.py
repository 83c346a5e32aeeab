"""Where the scores of a relabelling come from: the source, a reward model, or a policy's own implicit reward."""

import dataframely as dy
import polars as pl

from preflow.treatments.schemas import PairScores

SIDES = ("chosen", "rejected")


def source_scores(pairs: pl.DataFrame, *, attribute: str) -> pl.DataFrame:
    """The scores that the pairs came with, as `PairScores`; null where a pair has none."""
    return _scores(pairs, "score_{}", attribute)


def model_rewards(predictions: pl.DataFrame, *, attribute: str) -> pl.DataFrame:
    """A reward model's rewards (columns pair_id, reward_chosen, reward_rejected) as `PairScores`."""
    return _scores(predictions, "reward_{}", attribute)


def implicit_rewards(logps: pl.DataFrame, *, beta: float, attribute: str) -> pl.DataFrame:
    """Implicit rewards beta (log pi(y|x) - log pi_ref(y|x)) (Rafailov et al., 2023, eq. 5 without its constant).

    `logps` has the columns pair_id, logp_chosen, logp_rejected, ref_logp_chosen and ref_logp_rejected: summed
    log-probabilities of the responses under the policy and under its reference.
    """
    gains = {f"gain_{side}": beta * (pl.col(f"logp_{side}") - pl.col(f"ref_logp_{side}")) for side in SIDES}
    return _scores(logps.with_columns(**gains), "gain_{}", attribute)


def rescaled(scores: pl.DataFrame, *, low: float, high: float, decimals: int) -> pl.DataFrame:
    """Scores mapped so that each attribute's least is `low` and its greatest `high`, rounded to `decimals`.

    A prompt needs short numbers on a familiar scale; rewards of models come on any. Rounding can make scores tie.

    Raises
    ------
    ValueError
        An attribute has the same score everywhere, so nothing can be asked for.
    """
    columns = [f"score_{side}" for side in SIDES]
    least, greatest = pl.min_horizontal(columns).min(), pl.max_horizontal(columns).max()
    ends = scores.group_by("attribute").agg(least=least, greatest=greatest)
    flat = ends.filter(~(pl.col("greatest") > pl.col("least")))["attribute"].sort().to_list()
    if flat:
        raise ValueError(f"the scores of {', '.join(flat)} do not vary; a goal in them would ask for nothing")
    part = [(pl.col(name) - pl.col("least")) / (pl.col("greatest") - pl.col("least")) for name in columns]
    mapped = [
        (low + (high - low) * share).round(decimals).alias(name) for name, share in zip(columns, part, strict=True)
    ]
    return PairScores.cast(scores.join(ends, on="attribute").with_columns(*mapped).sort("pair_id", "attribute"))


def _scores(table: pl.DataFrame, column: str, attribute: str) -> dy.DataFrame[PairScores]:
    sides = {f"score_{side}": pl.col(column.format(side)) for side in SIDES}
    return PairScores.cast(table.select("pair_id", attribute=pl.lit(attribute), **sides).sort("pair_id"))
