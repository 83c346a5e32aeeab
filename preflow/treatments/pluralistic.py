"""Training data that keeps disagreement: what is done with a pair follows from how its annotators agree.

The policy names an action for each agreement class of the careful annotators (see `preflow.divergence.classes`), and
for `substantial` divergence apart. Rows of one treatment are trained on together; where a pair is split, each group's
preference is a row of the treatment `pluralistic_group_K`, so that the data of group K are the rows of `pluralistic`
and of `pluralistic_group_K`. Nothing is added to a prompt. A soft label is the share of the votes: the loss is then
least where P(chosen) is that share (`preflow.objectives.soft_label_loss`; Mitchell 2023).
"""

from collections.abc import Mapping
from typing import Literal, get_args

import polars as pl

from preflow.treatments.schemas import TreatedPairs
from preflow.triage.groups import opposing_groups

Action = Literal["keep", "soft_label", "split_by_group", "drop", "review"]
SITUATIONS = ("preference", "tie", "diverging", "substantial", "residual", "too_few_votes")
NAME = "pluralistic"


def pluralistic_pairs(
    comparisons: pl.LazyFrame,
    pairs: pl.LazyFrame,
    decided: pl.LazyFrame,
    classes: pl.LazyFrame,
    groups: pl.LazyFrame,
    splits: pl.LazyFrame,
    *,
    policy: Mapping[str, Action],
) -> pl.DataFrame:
    """`TreatedPairs` of all comparisons, by treatment and pair id; the reason names the situation and the action.

    A pair whose label is no preference (a tie, undecided) is never kept with one label: its row, with response_a as
    chosen, is left out as `..._no_preference`. A pair that is to be split although no two groups prefer different
    responses becomes one soft label, with the reason `..._groups_do_not_oppose`.

    Parameters
    ----------
    pairs
        `PreferencePairs` of the same verdicts: a soft label is their vote_share.
    decided
        `Verdicts`.
    classes
        `AgreementClasses`.
    groups
        `GroupPreferences`; empty where there are no groups.
    policy
        An action for each of SITUATIONS.

    Raises
    ------
    ValueError
        The policy lacks a situation, or names an unknown situation or action, or a soft label has no preference pair.
    """
    _check(policy)
    substantial = pl.col("careful_substantial").fill_null(value=False)
    careful = pl.col("careful_class").cast(pl.String).fill_null("too_few_votes")
    rows = (
        comparisons.select(
            "pair_id", "prompt", "response_a", "response_b", "score_a", "score_b", "prompt_group", "source"
        )
        .join(splits.select("pair_id", "split"), on="pair_id")
        .join(decided.select("pair_id", "outcome", "verdict"), on="pair_id")
        .join(classes.select("pair_id", "careful_class", "careful_substantial"), on="pair_id", how="left")
        .join(pairs.select("pair_id", "vote_share"), on="pair_id", how="left")
        .with_columns(situation=pl.when(substantial).then(pl.lit("substantial")).otherwise(careful))
        .with_columns(action=pl.col("situation").replace_strict(dict(policy), return_dtype=pl.String))
        .collect()
    )
    opposing = opposing_groups(groups).collect()
    split = (pl.col("action") == "split_by_group") & pl.col("pair_id").is_in(opposing["pair_id"].unique().implode())
    parts = [_whole(rows.filter(~split)), _by_group(rows.filter(split), opposing)]
    return TreatedPairs.cast(pl.concat(parts).sort("treatment", "pair_id"))


def _check(policy: Mapping[str, Action]) -> None:
    actions = get_args(Action)
    wrong = {name: action for name, action in policy.items() if name not in SITUATIONS or action not in actions}
    missing = [name for name in SITUATIONS if name not in policy]
    if wrong or missing:
        raise ValueError(
            f"the policy lacks {missing} and has {wrong}; each of {', '.join(SITUATIONS)} needs one of "
            f"{', '.join(actions)}"
        )


def _whole(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a pair, with the recorded label."""
    preference = pl.col("outcome") == "pair"
    one_label = pl.col("action").is_in(["keep", "soft_label", "split_by_group"])
    done = pl.col("action").replace({"split_by_group": "groups_do_not_oppose"})
    done = pl.when(one_label & ~preference).then(pl.lit("no_preference")).otherwise(done)
    side = pl.when(preference).then(pl.col("verdict").cast(pl.String)).otherwise(pl.lit("a"))
    kept, soft = one_label & preference, pl.col("action") != "keep"
    made = rows.with_columns(side=side, done=done, kept=kept, treatment=pl.lit(NAME))
    lacking = made.filter(pl.col("kept"), soft, pl.col("vote_share").is_null())["pair_id"]
    if len(lacking):
        raise ValueError(
            f"{len(lacking)} soft labels have no preference pair, first {lacking[0]}: give the preference pairs that "
            "were made from the same verdicts"
        )
    return _treated(made.with_columns(share=pl.when(soft, pl.col("kept")).then("vote_share")))


def _by_group(rows: pl.DataFrame, opposing: pl.DataFrame) -> pl.DataFrame:
    """One row a pair and group, with the preference of the group."""
    tie = pl.col("preferred") == "tie"
    return _treated(
        rows.join(opposing, on="pair_id").with_columns(
            side=pl.when(tie).then(pl.lit("a")).otherwise("preferred"),
            done=pl.when(tie).then(pl.lit("group_tie")).otherwise(pl.lit("group_preference")),
            kept=~tie,
            share=pl.lit(None, dtype=pl.Float64),
            treatment=pl.format(NAME + "_group_{}", "cluster"),
        )
    )


def _treated(rows: pl.DataFrame) -> pl.DataFrame:
    a = pl.col("side") == "a"
    columns = {
        f"{to}_{side}" if to else side: pl.when(a if side == "chosen" else ~a).then(f"{of}_a").otherwise(f"{of}_b")
        for to, of in (("", "response"), ("score", "score"))
        for side in ("chosen", "rejected")
    }
    empty = TreatedPairs.create_empty().schema
    return rows.with_columns(
        **columns,
        source_pair_id="pair_id",
        reason=pl.format("{}_{}", "situation", "done"),
        chosen_is="side",
        goal=pl.lit(None, dtype=empty["goal"]),
        order=pl.lit(None, dtype=pl.Int64),
    ).select(list(empty))
