"""The page: sections in reading order, laid out by one template. No script, no request, no date: it opens anywhere."""

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from preflow.report import sections
from preflow.report.blocks import Section, number
from preflow.report.concepts import concepts
from preflow.report.difficulty import difficulty
from preflow.report.distil import distillation
from preflow.report.divergence import divergence
from preflow.report.rewards import rewards as rewards_section
from preflow.report.treatments import worth
from preflow.report.triage import judge_section, triage_section
from preflow.triage.overview import Overview


def render_report(
    *,
    counts: Mapping[str, Any],
    votes_summary: pl.DataFrame,
    annotators: pl.DataFrame,
    agreement: Mapping[str, Any],
    contradictions: pl.DataFrame,
    clusters: pl.DataFrame,
    outcomes: Mapping[str, int],
    leakage: Mapping[str, int],
    pairs: pl.DataFrame,
    quarantine: pl.DataFrame,
    predictions: pl.DataFrame,
    evaluation: Mapping[str, Any],
    ranking: Mapping[str, Any],
    selection: Mapping[str, Any],
    selected: pl.DataFrame,
    difficulty_scores: pl.DataFrame,
    comparison: Mapping[str, Any],
    trained_on: Mapping[str, int],
    divergence_counts: Mapping[str, Any],
    reasons: pl.DataFrame,
    remainders: pl.DataFrame,
    divergence_evaluation: Mapping[str, Any],
    audits: Mapping[str, Mapping[str, Any]],
    triage: Overview,
    concept_intake: Mapping[str, Any],
    concept_report: Mapping[str, Any],
    concept_flip_rates: pl.DataFrame,
    hacking: Mapping[str, Any],
    reward_benchmark: Mapping[str, Any],
    rewarded_attributes: pl.DataFrame,
    table_links: Mapping[str, str],
) -> str:
    """The whole report as one HTML page. Frames are the canonical tables, dicts as at the sections.

    Raises
    ------
    KeyError
        A dict lacks a figure that its section shows.
    ValueError
        A link of `table_links` is not relative.
    """
    headline = [
        (counts["rows_in"], "rows in"),
        (counts["rows_quarantined"], "refused"),
        (counts["rows_merged"], "merged duplicates"),
        (counts["comparisons"], "comparisons"),
        (counts["votes"], "votes"),
        (len(pairs), "preference pairs"),
    ]
    body = [
        sections.intake(counts),
        sections.refused(quarantine, counts),
        sections.votes(votes_summary, annotators, agreement, agreement["against_gold"]),
        divergence(divergence_counts, reasons, remainders, divergence_evaluation),
        judge_section(audits),
        sections.duplicates(clusters, contradictions),
        sections.splits(pairs, counts, outcomes, leakage),
        sections.distributions(pairs),
        sections.reward_model(evaluation),
        rewards_section(reward_benchmark, rewarded_attributes),
        sections.suspicious(pairs, predictions),
        difficulty(ranking, selection, selected, difficulty_scores),
        worth(comparison, trained_on),
        triage_section(triage),
        concepts(concept_intake, concept_report, concept_flip_rates),
        distillation(hacking),
        sections.reading(table_links),
    ]
    return render_page("Feedback report", headline, body)


def render_page(title: str, headline: Sequence[tuple[int, str]], body: Sequence[Section]) -> str:
    """A self-contained page of sections under a row of headline numbers."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("preflow.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "drawn": Markup}
    return environment.get_template("page.html.j2").render(title=title, headline=headline, sections=body)
