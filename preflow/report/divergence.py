"""The report's section of divergence: how many comparisons people differ on, why, and what a reward knows of it."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from preflow.report.blocks import Block, Section, Table, Text, interval, number, p_value, percent

TITLE = "Where annotators differ"
CLASSES = ("preference", "tie", "diverging", "substantial", "residual", "too_few_votes")

Record = Mapping[str, Any]


def divergence(counts: Record, reasons: pl.DataFrame, remainders: pl.DataFrame, evaluation: Record) -> Section:
    """Comparisons by agreement class, causes found by each source, and the distributional reward.

    Parameters
    ----------
    counts
        That of `preflow.divergence.classes.class_counts`, with `groups`, `n_groups` and `careless`.
    reasons, remainders
        `DivergenceReasons` and `ReasonRemainders`.
    evaluation
        That of `preflow.divergence.distribution.Fitted`.
    """
    lead = (
        "Diverging: somebody on each side. Substantial, a part of it: a clear preference on each side. A careless "
        "annotator is not a diverging one, so classes are counted with and without the votes of careless annotators."
    )
    everyone = counts["all"]
    voted = sum(everyone[name] for name in ("preference", "tie", "diverging", "residual"))
    if not voted:
        return Section("divergence", TITLE, "No comparison has the votes of two annotators.", lead)
    alike = f"{counts['n_groups']} groups vote alike" if counts["n_groups"] else "no groups among annotators"
    share = percent(everyone["diverging"] / voted)
    finding = f"{share} of the comparisons diverge; {alike}, careless annotators: {counts['careless']}."
    rows = [[name.replace("_", " "), everyone[name], counts["careful"][name]] for name in CLASSES]
    classes = Table(["class", "all annotators", "careful annotators"], rows, "Comparisons by agreement class.")
    blocks: list[Block] = [classes, _causes(reasons, remainders), Text(_reward(evaluation))]
    return Section("divergence", TITLE, finding, lead, blocks)


def _causes(reasons: pl.DataFrame, remainders: pl.DataFrame) -> Table:
    """How often each source names each cause, most named first; the last row is what it leaves unexplained."""
    sources = remainders["source"].cast(pl.String).unique().sort().to_list()
    named = (
        reasons.group_by(pl.col("label", "source").cast(pl.String)).len().sort("len", "label", descending=[True, False])
    )
    found: dict[str, dict[str, int]] = {}
    for label, source, n in named.iter_rows():
        found.setdefault(label, {})[source] = n
    rows: list[list[Any]] = [
        [label.replace("_", " "), *(number(by.get(source, 0)) for source in sources)] for label, by in found.items()
    ]
    asked = remainders.group_by(pl.col("source").cast(pl.String)).agg(pl.len(), nothing=(pl.col("n_causes") == 0).sum())
    nothing = {source: f"{percent(n / of)} of {number(of)}" for source, of, n in asked.iter_rows()}
    rows.append(["no cause found", *(nothing[source] for source in sources)])
    if unreadable := remainders["unreadable_answer"].count():
        rows.append(["answer unreadable", *(number(unreadable if source == "endpoint" else 0) for source in sources)])
    headings = ["cause", *(source.replace("_", " ") for source in sources)]
    return Table(headings, rows, "Diverging comparisons by cause, as each source sees it; never a forced one.")


def _reward(evaluation: Record) -> str:
    if evaluation["not_fitted"]:
        return f"No reward was fitted to the histograms of votes: {evaluation['not_fitted']}."
    kept, baseline = (evaluation["auroc"][name] for name in ("mean_variance_kl", "bt_all"))
    gain, right = evaluation["auroc_difference"], evaluation["accuracy_difference"]
    return (
        f"A reward with mean and spread tells diverging test comparisons from others with an AUROC of "
        f"{number(kept, 2)}, the gap of a Bradley-Terry reward with {number(baseline, 2)}: difference "
        f"{interval(gain['estimate'], gain['low'], gain['high'])}. Accuracy against the majority differs by "
        f"{interval(right['estimate'], right['low'], right['high'])} ({p_value(evaluation['accuracy_p'])})."
    )
