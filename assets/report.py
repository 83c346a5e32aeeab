"""The one page that shows it all."""

from typing import Any

import dagster as dg
import polars as pl


@dg.asset(io_manager_key="page", kinds={"altair"})
def report(
    intake: dict[str, Any],
    quarantine: pl.LazyFrame,
    vote_summary: pl.LazyFrame,
    annotator_quality: pl.LazyFrame,
    agreement: dict[str, Any],
    duplicate_clusters: pl.LazyFrame,
    contradictions: pl.LazyFrame,
    leakage: dict[str, int],
    outcomes: dict[str, int],
    preference_pairs: pl.LazyFrame,
    reward_predictions: pl.LazyFrame,
    reward_evaluation: dict[str, Any],
    ranking: dict[str, Any],
    selection: dict[str, Any],
    selected_pairs: pl.LazyFrame,
    difficulty_scores: pl.LazyFrame,
    treated_pairs: pl.LazyFrame,
    policy_comparison: dict[str, Any],
    divergence_counts: dict[str, Any],
    divergence_reasons: pl.LazyFrame,
    reason_remainders: pl.LazyFrame,
    divergence_evaluation: dict[str, Any],
    judge_audit: dict[str, Any],
    triage_table: pl.LazyFrame,
    comparisons: pl.LazyFrame,
    concept_intake: dict[str, Any],
    concept_report: dict[str, Any],
    concept_flip_rates: pl.LazyFrame,
    hacking_report: dict[str, Any],
    reward_benchmark: dict[str, Any],
    rewarded_attributes: pl.LazyFrame,
) -> str:
    """What came in, what was refused and why, how people agree, which pairs to look at, what treatments are worth."""
    from preflow.report import render_report
    from preflow.triage.overview import overview

    return render_report(
        counts=intake,
        quarantine=quarantine.collect(),
        votes_summary=vote_summary.collect(),
        annotators=annotator_quality.collect(),
        agreement=agreement,
        clusters=duplicate_clusters.collect(),
        contradictions=contradictions.collect(),
        leakage=leakage,
        outcomes=outcomes,
        pairs=preference_pairs.collect(),
        predictions=reward_predictions.collect(),
        evaluation=reward_evaluation,
        ranking=ranking,
        selection=selection,
        selected=selected_pairs.collect(),
        difficulty_scores=difficulty_scores.collect(),
        comparison=policy_comparison,
        trained_on=dict(treated_pairs.filter("kept").group_by("treatment").len().collect().rows()),
        divergence_counts=divergence_counts,
        reasons=divergence_reasons.collect(),
        remainders=reason_remainders.collect(),
        divergence_evaluation=divergence_evaluation,
        audits=judge_audit["judges"],
        triage=overview(triage_table, comparisons, examples=EXAMPLES, queued=QUEUED),
        concept_intake=concept_intake,
        concept_report=concept_report,
        concept_flip_rates=concept_flip_rates.collect(),
        hacking=hacking_report,
        reward_benchmark=reward_benchmark,
        rewarded_attributes=rewarded_attributes.collect(),
        table_links={name: f"../data/{place}" for name, place in TABLES.items()},
    )


EXAMPLES = 30  # comparisons of each rule in the table to filter
QUEUED = 20  # comparisons of the review queue that the page shows

# Where readers of the page find what it summarises, relative to the folder of the page.
TABLES = {
    "comparisons": "feedback/comparisons.parquet",
    "votes": "feedback/votes.parquet",
    "refused rows": "feedback/quarantine.parquet",
    "duplicate clusters": "audit/duplicate_clusters.parquet",
    "contradictions": "audit/contradictions.parquet",
    "splits": "audit/splits.parquet",
    "vote summary": "audit/vote_summary.parquet",
    "annotators": "audit/annotator_quality.parquet",
    "preference pairs": "pairs/preference_pairs.parquet",
    "reward predictions": "reward/reward_predictions.parquet",
    "what every reward gives every response": "reward_models/reward_scores.parquet",
    "responses rewritten twice": "reward_audit/response_rewrites.parquet",
    "what each reward pays for": "reward_audit/rewarded_attributes.parquet",
    "pairs left out as too hard": "difficulty/selected_pairs.parquet",
    "reward-augmented pairs": "augmentation/reward_augmented_pairs.parquet",
    "every treatment as data": "treatments/treated_pairs.parquet",
    "what the policies said": "comparison/judged_responses.parquet",
    "what to do with each comparison": "triage/triage_table.parquet",
    "review queue": "triage/review_queue/queue.csv",
    "pairs that keep disagreement": "triage/pluralistic_pairs.parquet",
    "reasons for divergence": "divergence/divergence_reasons.parquet",
    "concept labels to doubt": "concepts/doubted_concept_labels.parquet",
    "concept bottlenecks measured": "concepts/concept_scores.parquet",
    "distillation, run by run": "distil/distil_runs.parquet",
    "training data": "exports/training_data/README.md",
    "validation of every table": "../reports/data_docs/index.html",
}
