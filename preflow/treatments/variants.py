"""The derived datasets that are compared: the two treatments, their combination and their controls, in one table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import polars as pl

from preflow.treatments.pluralistic import NAME
from preflow.treatments.schemas import TreatedPairs
from preflow.treatments.selection import select_hardest, select_random

Variant = Literal[
    "untreated",
    "reward_augmented",
    "easiest_share",
    "easiest_share_augmented",
    "random_share",
    "hardest_share",
    "label_smoothed",
    "gold_filtered",
    "pluralistic",
]
LABEL_SMOOTHED: Variant = "label_smoothed"
"""The pairs of `untreated`; it differs in the loss."""

OF_A_SHARE = ("_share", "_share_augmented")
"""Endings of the variants that keep a share of the pairs."""

GoldRewards = Callable[[pl.Series, pl.Series], pl.Series]


def variants(
    names: Sequence[Variant],
    untreated: pl.DataFrame,
    selected: pl.DataFrame,
    augmented: pl.DataFrame,
    difficulty: pl.DataFrame,
    pluralistic: pl.DataFrame,
    *,
    share: float | None,
    seed: int,
    gold: GoldRewards,
) -> pl.DataFrame:
    """`TreatedPairs` of every variant in `names`, in their order; one without a kept row has a reason in each row.

    Where all pairs were selected, the variants of a share are left out: they would be the untreated pairs again.

    Parameters
    ----------
    untreated, selected, augmented
        Rows of the train split: the pairs as they are, what `select_easiest` and what `augment` made of them.
    difficulty
        `DifficultyScores`, for the hardest share.
    pluralistic
        What `pluralistic_pairs` made of all comparisons; of it the rows of one label, hard or soft, are taken.
    share
        What was selected, so that the controls have its size; None where there is nothing to select from.
    gold
        The true reward of each response given prompts and responses, null where it is not known; for the control that
        keeps what is rightly labelled.
    """
    usable = untreated.filter("kept")
    if usable.is_empty() or share is None:
        return TreatedPairs.create_empty()
    names = [name for name in names if share < 1 or not name.endswith(OF_A_SHARE)]
    made: Mapping[Variant, Callable[[], pl.DataFrame]] = {
        "untreated": lambda: untreated,
        "reward_augmented": lambda: augmented,
        "easiest_share": lambda: selected,
        "easiest_share_augmented": lambda: _both(augmented, selected),
        "random_share": lambda: select_random(usable, share=share, seed=seed),
        "hardest_share": lambda: select_hardest(usable, difficulty, share=share),
        "label_smoothed": lambda: untreated,
        "gold_filtered": lambda: _rightly_labelled(usable, gold),
        "pluralistic": lambda: _readable(pluralistic, untreated),
    }
    return TreatedPairs.cast(pl.concat([made[name]().with_columns(treatment=pl.lit(name)) for name in names]))


def _both(augmented: pl.DataFrame, selected: pl.DataFrame) -> pl.DataFrame:
    """The augmented rows of selected pairs; the others are left out for the reason of the selection."""
    reasons = selected.select("pair_id", "kept", "reason").rename({"pair_id": "source_pair_id"})
    rows = augmented.join(reasons, on="source_pair_id", suffix="_selection", how="left")
    left_out = pl.col("kept") & ~pl.col("kept_selection")
    return rows.with_columns(
        reason=pl.when(left_out).then("reason_selection").otherwise("reason"),
        kept=pl.col("kept") & pl.col("kept_selection"),
    ).drop("kept_selection", "reason_selection")


def _readable(pluralistic: pl.DataFrame, untreated: pl.DataFrame) -> pl.DataFrame:
    """The rows of one label whose pair is in `untreated`; what is left out there is left out here for its reason."""
    rows = pluralistic.filter(pl.col("treatment") == NAME)
    known = untreated.select("pair_id", readable="kept", why="reason")
    left_out = pl.col("kept") & ~pl.col("readable")
    return (
        rows.join(known, on="pair_id")
        .with_columns(
            reason=pl.when(left_out).then("why").otherwise("reason"),
            kept=pl.col("kept") & pl.col("readable"),
            share=pl.when(~left_out).then("share"),
        )
        .drop("readable", "why")
        .sort("pair_id")
    )


def _rightly_labelled(pairs: pl.DataFrame, gold: GoldRewards) -> pl.DataFrame:
    chosen, rejected = (gold(pairs["prompt"], pairs[side]) for side in ("chosen", "rejected"))
    known = chosen.is_not_null() & rejected.is_not_null()
    right = (chosen > rejected).fill_null(value=False)
    reason = pl.when(right).then(pl.lit("right_label")).otherwise(pl.lit("wrong_label"))
    return pairs.with_columns(kept=right, reason=pl.when(known).then(reason).otherwise(pl.lit("no_gold")))
