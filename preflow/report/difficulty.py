"""The report's section of the difficulty selection: the share to keep, and which pairs were left out."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from preflow import charts
from preflow.report.blocks import (
    Block,
    Cell,
    Details,
    Figure,
    Folds,
    Numbers,
    Section,
    interval,
    number,
    pair_details,
    percent,
)

TITLE = "Difficulty"
LEFT_OUT = ("flip_suspected", "too_hard")
EXAMPLES = 10  # of each reason

Record = Mapping[str, Any]


def difficulty(ranking: Record, selection: Record, selected: pl.DataFrame, scores: pl.DataFrame) -> Section:
    """The share to keep, what the ranking is worth, and examples of what was left out.

    Parameters
    ----------
    ranking
        `seed_agreement`: Spearman correlation of the difficulty between seeds, None with one seed.
    selection
        `share`, picked on validation, None where nothing was ranked; `curve`: records of `share`, `accuracy`, `low`
        and `high`.
    selected
        `TreatedPairs` of the easiest share.
    scores
        `DifficultyScores` of these pairs.
    """
    lead = (
        "A pair is hard where models that did not train on it get it wrong. Some hard pairs are wrong labels, some are "
        "beyond this model. From the losses alone the two are told apart only weakly: read them."
    )
    if selection["share"] is None:
        return Section("difficulty", TITLE, "Not measured: no pair was ranked.", lead)
    counts = {reason: selected.filter(pl.col("reason") == reason).height for reason in LEFT_OUT}
    headline: list[tuple[Cell, str]] = [
        (f"{number(int(selected['kept'].sum()))} of {number(len(selected))}", "pairs kept"),
        *((count, f"left out, {_words(reason)}") for reason, count in counts.items()),
        (number(ranking["seed_agreement"], 2), "rank correlation of the difficulty between seeds"),
    ]
    curve = Figure(
        charts.accuracy_by_share(selection),
        "Accuracy on validation pairs, whose labels are as noisy as all others, by share kept. Blue: picked.",
    )
    blocks: list[Block] = [Numbers(headline), curve, _left_out(selected, scores)]
    return Section("difficulty", TITLE, _share_found(selection), lead, blocks)


def _share_found(selection: Record) -> str:
    """Whether leaving out the hardest pairs pays, by the intervals of the shares."""
    curve = {row["share"]: row for row in selection["curve"]}
    picked, everything = curve[selection["share"]], curve.get(1.0)
    found = f"{percent(picked['share'])} of the pairs are kept, accuracy {_accuracy(picked)} on validation"
    if everything is None:
        return f"{found}; all pairs were not tried."
    if picked is everything:
        return f"{found}: no smaller share did better."
    apart = picked["low"] > everything["high"]
    verdict = "their intervals are apart" if apart else "their intervals overlap, so the gain is not sure"
    return f"{found}; with all pairs {_accuracy(everything)}: {verdict}."


def _accuracy(row: Record) -> str:
    return interval(row["accuracy"], row["low"], row["high"])


def _left_out(selected: pl.DataFrame, scores: pl.DataFrame) -> Folds:
    """Examples of each reason, the hardest first, with their full texts."""
    hardest = selected.join(scores, on="pair_id").sort(["difficulty", "pair_id"], descending=[True, False])
    parts = [hardest.filter(pl.col("reason") == reason).head(EXAMPLES) for reason in LEFT_OUT]
    return Folds([_example(row) for part in parts for row in part.iter_rows(named=True)])


def _example(row: Record) -> Details:
    facts = [
        f"difficulty {number(row['difficulty'], 2)}",
        f"P(label wrong) at least {number(row['flip_suspicion'], 2)}",
        "never learned" if row["learned_at"] is None else f"learned at checkpoint {row['learned_at']}",
        f"{row['source']}, {row['split']}",
        f"pair {row['pair_id'][:8]}",
    ]
    return pair_details(row, f"{_words(row['reason'])}:", facts)


def _words(reason: str) -> str:
    return reason.replace("_", " ")
