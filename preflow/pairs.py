"""From comparisons to the pairs that are trained on: which response was preferred, and the doubts about it."""

from typing import Literal

import dataframely as dy
import polars as pl
from tokenizers import Tokenizer

from preflow.schemas import CHOICES, PreferencePairs, pair_id_column
from preflow.text import conversation

Label = Literal["majority", "worker_model", "gold"]

# What decides, in order: the first that a comparison has. Only `gold` puts the gold above the votes.
ORDER = {
    "majority": ["majority", "gold", "scores"],
    "worker_model": ["worker_model", "gold", "scores"],
    "gold": ["gold", "majority", "scores"],
}


class Verdicts(dy.Schema):
    """One row per comparison: what came of it, so that comparisons = pairs + ties + undecided."""

    pair_id = pair_id_column()
    outcome = dy.Enum(["pair", "tie", "undecided"], description="Undecided: no label at all, or too little agreement.")
    verdict = dy.Enum(CHOICES, nullable=True, description="The better response, or tie; null where nothing says.")
    label_source = dy.Enum(
        ["gold", "majority", "worker_model", "scores"],
        nullable=True,
        description="What decided; null where nothing did.",
    )


def verdicts(comparisons: pl.LazyFrame, summary: pl.LazyFrame, *, label: Label, min_agreement: float) -> pl.DataFrame:
    """What each comparison comes to, as `Verdicts`, in order of pair_id.

    `label` decides where it can: votes where there are votes, then the gold, then the order of the scores. With
    `label="gold"` the gold comes before the votes. A comparison decided by votes whose agreement (1 - normalised
    entropy) is below `min_agreement` is undecided.

    Raises ValueError if `label` is unknown or `min_agreement` lies outside [0, 1].
    """
    if label not in ORDER:
        raise ValueError(f"label={label!r} is unknown: one of {', '.join(ORDER)} is needed")
    if not 0 <= min_agreement <= 1:
        raise ValueError(f"min_agreement={min_agreement}: a number from 0 to 1 is needed")
    says = _opinions()
    decided_by = [pl.when(says[name].is_not_null()).then(pl.lit(name)) for name in ORDER[label]]
    by_votes = pl.col("label_source").is_in(["majority", "worker_model"])
    too_split = by_votes & (1 - pl.col("entropy") < min_agreement)
    outcome = (
        pl.when(pl.col("verdict").is_null() | too_split)
        .then(pl.lit("undecided"))
        .when(pl.col("verdict") == "tie")
        .then(pl.lit("tie"))
        .otherwise(pl.lit("pair"))
    )
    rows = (
        comparisons.select("pair_id", "gold", "score_a", "score_b")
        .join(summary.select("pair_id", "majority", "worker_label", "entropy"), on="pair_id", how="left")
        .with_columns(verdict=pl.coalesce(says[name] for name in ORDER[label]), label_source=pl.coalesce(decided_by))
        .with_columns(outcome=outcome)
        .sort("pair_id")
    )
    return Verdicts.cast(rows.collect())


def outcome_counts(decided: pl.LazyFrame) -> dict[str, int]:
    """How many comparisons became pairs, ties, or stayed undecided; they add up to the comparisons."""
    counts = dict(
        decided.group_by("outcome").len().with_columns(pl.col("outcome").cast(pl.String)).collect().iter_rows()
    )
    return {name: int(counts.get(name, 0)) for name in ("pair", "tie", "undecided")}


def identical_when_truncated(comparisons: pl.LazyFrame, *, tokenizer: Tokenizer, max_tokens: int) -> pl.DataFrame:
    """pair_id of comparisons whose prompt and response have the same first `max_tokens` tokens on both sides.

    A model that sees no more than that learns nothing from them. The prompt is one `role: content` line a message.
    """
    prompt, a, b = conversation(pl.col("prompt")), pl.col("response_a"), pl.col("response_b")
    shared = pl.min_horizontal(a.str.len_bytes(), b.str.len_bytes())
    # A token covers at least a byte, so responses that differ early, or end early, differ before the cut.
    reach = prompt.str.len_bytes() + pl.when(a.str.head(8) == b.str.head(8)).then(shared).otherwise(32)
    rows = (
        comparisons.filter(reach + 2 >= max_tokens)
        .select("pair_id", a=prompt + "\n" + a, b=prompt + "\n" + b)
        .sort("pair_id")
        .collect()
    )
    cut = [_first_tokens(tokenizer, rows[side].to_list(), max_tokens) for side in ("a", "b")]
    same = [left == right for left, right in zip(*cut, strict=True)]
    return rows.select("pair_id").filter(pl.Series(same, dtype=pl.Boolean))


def preference_pairs(
    comparisons: pl.LazyFrame,
    decided: pl.LazyFrame,
    summary: pl.LazyFrame,
    splits: pl.LazyFrame,
    contradictions: pl.LazyFrame,
    truncated: pl.LazyFrame,
) -> pl.DataFrame:
    """The pairs to train on, as `PreferencePairs`: one for every comparison whose outcome in `decided` is a pair.

    `decided` is what `verdicts` says; `truncated` holds the pair_id of comparisons from `identical_when_truncated`.
    Flags are carried over from the comparison and extended by `scores_disagree`, `identical_after_truncation`,
    `contradicted` (an exact duplicate is judged the other way) and `own_vote_contradiction` (an annotator voted both
    ways).

    Raises ValueError if no comparison became a pair: there is nothing to train on.
    """
    counts = outcome_counts(decided)
    if not counts["pair"]:
        raise ValueError(
            f"no pair is left of {sum(counts.values())} comparisons: {counts['tie']} ties and {counts['undecided']} "
            "undecided; lower pairs.min_agreement, or give feedback in which some response is preferred"
        )
    rows = (
        decided.filter(pl.col("outcome") == "pair")
        .select("pair_id", "label_source", chosen_is="verdict")
        .join(comparisons, on="pair_id", validate="1:1")
        .join(summary, on="pair_id", how="left", validate="1:1")
        .join(splits.select("pair_id", "split"), on="pair_id", how="left", validate="1:1")
        .join(_doubts(contradictions, truncated), on="pair_id", how="left")
        .with_columns(a_chosen=pl.col("chosen_is") == "a")
        .with_columns(
            chosen=_side("response", won=True),
            rejected=_side("response", won=False),
            score_chosen=_side("score", won=True),
            score_rejected=_side("score", won=False),
            n_votes=pl.col("n_votes").fill_null(0),
            agreement=(1 - pl.col("entropy")).fill_null(1.0),
            vote_share=_vote_share(),
        )
        .with_columns(margin=pl.col("score_chosen") - pl.col("score_rejected"))
        .with_columns(flags=_flags())
        .sort("pair_id")
    )
    return PreferencePairs.cast(rows.collect())


def _opinions() -> dict[str, pl.Expr]:
    """The verdict of each source of labels: a, b, tie, or null where it has none."""
    lead = pl.col("score_a") - pl.col("score_b")
    by_score = pl.when(lead > 0).then(pl.lit("a")).when(lead < 0).then(pl.lit("b")).when(lead == 0).then(pl.lit("tie"))
    return {
        "gold": pl.col("gold").cast(pl.String),
        "majority": pl.col("majority").cast(pl.String),
        "worker_model": pl.col("worker_label").cast(pl.String),
        "scores": by_score,
    }


def _vote_share() -> pl.Expr:
    """The weight of chosen under what decided."""
    source = pl.col("label_source")
    for_a = pl.when(source == "majority").then("share_a").when(source == "worker_model").then("worker_share_a")
    return pl.when("a_chosen").then(for_a).otherwise(1 - for_a).fill_null(1.0)


def _side(name: str, *, won: bool) -> pl.Expr:
    """The column of the chosen (or the rejected) side."""
    a, b = pl.col(f"{name}_a"), pl.col(f"{name}_b")
    return pl.when(pl.col("a_chosen") == won).then(a).otherwise(b)


def _doubts(contradictions: pl.LazyFrame, truncated: pl.LazyFrame) -> pl.LazyFrame:
    """pair_id and the flags that other tables raise for it."""
    own = pl.col("kind") == "own_vote"
    both_sides = pl.concat(
        contradictions.filter(~own).select(pair_id=side, doubt=pl.lit("contradicted"))
        for side in ("pair_id", "other_pair_id")
    )
    own_votes = contradictions.filter(own).select("pair_id", doubt=pl.lit("own_vote_contradiction"))
    alike = truncated.select("pair_id", doubt=pl.lit("identical_after_truncation"))
    return pl.concat([both_sides, own_votes, alike]).group_by("pair_id").agg(doubts=pl.col("doubt").unique().sort())


def _flags() -> pl.Expr:
    """The comparison's flags and the new ones, in order, without repeats."""
    disagree = pl.when(pl.col("margin") < 0).then(pl.lit(["scores_disagree"]))
    nothing = pl.lit([], dtype=pl.List(pl.String))
    return (
        pl.concat_list("flags", pl.col("doubts").fill_null(nothing), disagree.fill_null(nothing))
        .list.unique()
        .list.sort()
    )


def _first_tokens(tokenizer: Tokenizer, texts: list[str], max_tokens: int) -> list[list[int]]:
    """The first token ids of each text."""
    return [encoding.ids[:max_tokens] for encoding in tokenizer.encode_batch(texts)]
