"""Reward-augmented data: every scored pair becomes two pairs under prompts that ask for a score.

Zhang et al., "Reward-Augmented Data Enhances Direct Preference Alignment of LLMs" (ICML 2025, arXiv 2410.08067): with
the goal-conditioned reward R(x, y, g) = -(g - r(x, y))^2 a pair (x, y_w, y_l) gives (x + g = r_w: y_w over y_l) and
(x + g = r_l: y_l over y_w). Ordinary DPO is trained on both; the policy is asked for a goal picked on validation.

The scores alone decide the labels: the recorded label is not read, except where the scores tie. Left out: the paper's
choice of pairs out of several responses, which is made before pairs are. `docs/reward_augmented.md` says what differs
from the official code.
"""

from typing import Literal

import polars as pl
import pyarrow as pa

from preflow.ingest.canonical import NESTED, pair_id_of
from preflow.treatments.goals import GoalText, with_goal, without_goal
from preflow.treatments.schemas import CARRIED, TreatedPairs

Ties = Literal["drop", "keep_label"]

GOAL_OF_CHOSEN, GOAL_OF_REJECTED, GOAL_OF_BOTH = "goal_of_chosen", "goal_of_rejected", "goal_of_both"
TIED, NO_SCORE = "tied_scores", "no_score"
SWAPS = {"chosen": "rejected", "rejected": "chosen", "score_chosen": "score_rejected", "score_rejected": "score_chosen"}
GOALS = pa.list_(pa.struct({"attribute": pa.string(), "value": pa.float64()}))


def augment(pairs: pl.DataFrame, scores: pl.DataFrame, *, text: GoalText, ties: Ties) -> pl.DataFrame:
    """The goal-conditioned pairs, as `TreatedPairs`, in order of source_pair_id and reason.

    Parameters
    ----------
    pairs
        `PreferencePairs`, or rows that another treatment kept.
    scores
        `PairScores`; a pair needs a finite score of both responses for every attribute of `text`, else it is left out
        with the reason no_score.
    ties
        What becomes of a pair whose responses have equal scores throughout: left out (`drop`, reason tied_scores), or
        one row with the recorded label under the common goal (`keep_label`, reason goal_of_both). Two rows would
        contradict each other.

    Raises
    ------
    ValueError
        An attribute of `text` is scored nowhere, or `ties` is unknown.
    """
    if ties not in ("drop", "keep_label"):
        raise ValueError(f"ties={ties!r} is unknown: drop or keep_label is needed")
    absent = sorted(set(text.attributes) - set(scores["attribute"]))
    if absent and len(pairs):
        raise ValueError(f"no pair has a score for {absent}; scored are {sorted(set(scores['attribute']))}")
    table = pairs.select(CARRIED).join(_goals(scores, text), on="pair_id", how="left", validate="1:1")
    scored = pl.col("finite").fill_null(value=False)
    apart, tied = table.filter(scored & ~pl.col("tied")), table.filter(scored & pl.col("tied"))
    rows = [
        _asked(apart, "goal_chosen", GOAL_OF_CHOSEN, text),
        _asked(_swapped(apart), "goal_rejected", GOAL_OF_REJECTED, text),
        _asked(tied, "goal_chosen", GOAL_OF_BOTH, text) if ties == "keep_label" else _left_out(tied, TIED),
        _left_out(table.filter(~scored), NO_SCORE),
    ]
    made = pl.concat(rows, how="diagonal").with_columns(treatment=pl.lit("reward_augmented"), order=None, share=None)
    return TreatedPairs.cast(made.sort("source_pair_id", "reason"))


def un_augment(treated: pl.DataFrame, *, text: GoalText) -> pl.DataFrame:
    """The pairs that `augment` was given, byte for byte and in order of pair_id, without those it left out.

    Columns: those that a treatment takes over from preference pairs (`CARRIED`).

    Raises
    ------
    ValueError
        A row does not undo to the pair it names, or the two rows of a pair do not undo to the same one.
    """
    made = treated.filter("kept")
    back = pl.concat([made.filter(pl.col("reason") != GOAL_OF_REJECTED), _swapped(_of(made, GOAL_OF_REJECTED))])
    goals = [tuple(part["value"] for part in goal) for goal in back["goal"].to_list()]
    prompts = [without_goal(*row, text) for row in zip(back["prompt"].to_list(), goals, strict=True)]
    back = back.with_columns(_messages(prompts).cast(back["prompt"].dtype))
    back = back.with_columns(pair_id=pl.Series(_pair_ids(back), dtype=pl.String)).sort("source_pair_id")
    wrong = back.filter(pl.col("pair_id") != pl.col("source_pair_id"))["source_pair_id"]
    if len(wrong):
        raise ValueError(f"{len(wrong)} rows do not undo to the pair they name, first {wrong[0]}; were texts changed?")
    if not _of(back, GOAL_OF_CHOSEN).select(CARRIED).equals(_of(back, GOAL_OF_REJECTED).select(CARRIED)):
        raise ValueError("the two rows of a pair do not undo to the same pair; was one dropped, or left unswapped?")
    return back.filter(pl.col("reason") != GOAL_OF_REJECTED).select(CARRIED)


def _goals(scores: pl.DataFrame, text: GoalText) -> pl.DataFrame:
    """pair_id, the goal of each side (a score per attribute, in order), whether all are finite, whether all tie."""
    places = pl.DataFrame({"attribute": text.attributes, "place": range(len(text.attributes))})
    chosen, rejected = pl.col("score_chosen"), pl.col("score_rejected")
    finite = (chosen.is_finite() & rejected.is_finite()).fill_null(value=False)
    return (
        scores.join(places, on="attribute")
        .sort("pair_id", "place")
        .group_by("pair_id", maintain_order=True)
        .agg(
            goal_chosen=chosen,
            goal_rejected=rejected,
            finite=finite.all() & (pl.len() == len(text.attributes)),
            tied=(chosen == rejected).all(),
        )
    )


def _asked(table: pl.DataFrame, goal: str, reason: str, text: GoalText) -> pl.DataFrame:
    """The rows under prompts that ask for the goal in column `goal`."""
    goals = [tuple(values) for values in table[goal].to_list()]
    prompts = [with_goal(*row, text) for row in zip(table["prompt"].to_list(), goals, strict=True)]
    said = [[{"attribute": a, "value": v} for a, v in zip(text.attributes, g, strict=True)] for g in goals]
    rows = table.with_columns(
        _messages(prompts),
        pl.Series("goal", pl.from_arrow(pa.array(said, type=GOALS))),
        source_pair_id="pair_id",
        kept=pl.lit(value=True),
        reason=pl.lit(reason),
    )
    return rows.with_columns(pair_id=pl.Series(_pair_ids(rows), dtype=pl.String)).drop(_GOAL_COLUMNS)


def _left_out(table: pl.DataFrame, reason: str) -> pl.DataFrame:
    plain = table.with_columns(source_pair_id="pair_id", kept=pl.lit(value=False), reason=pl.lit(reason))
    return plain.with_columns(_messages(plain["prompt"].to_list())).drop(_GOAL_COLUMNS)


def _swapped(table: pl.DataFrame) -> pl.DataFrame:
    """The rows with the other response chosen; prompts and everything else stay."""
    other = pl.when(pl.col("chosen_is") == "a").then(pl.lit("b")).otherwise(pl.lit("a"))
    swapped = {name: pl.col(of) for name, of in SWAPS.items()}
    return table.with_columns(chosen_is=other.cast(table["chosen_is"].dtype), **swapped)


def _pair_ids(rows: pl.DataFrame) -> list[str]:
    """The content hash of each row, its responses in the order of the comparison."""
    columns = rows.select("prompt", "chosen", "rejected", "chosen_is").iter_rows()
    return [pair_id_of(prompt, *((y, z) if first == "a" else (z, y))) for prompt, y, z, first in columns]


def _messages(prompts: list[list[dict[str, str]]]) -> pl.Series:
    # Built by pyarrow: polars takes ten times as long over Python lists of messages.
    return pl.Series("prompt", pl.from_arrow(pa.array(prompts, type=NESTED["prompt"])))


def _of(rows: pl.DataFrame, reason: str) -> pl.DataFrame:
    return rows.filter(pl.col("reason") == reason)


_GOAL_COLUMNS = ("goal_chosen", "goal_rejected", "finite", "tied")
