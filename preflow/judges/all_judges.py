"""The audit of every judge: those among the annotators, and a language model that is asked here."""

from pathlib import Path
from typing import Any

import polars as pl

from preflow.divergence.classes import agreement_classes
from preflow.endpoint.settings import Endpoint
from preflow.judges.asked import endpoint_judge
from preflow.judges.audit import judge_audit, verdicts_of
from preflow.judges.rankings import ranking_change, system_matches, without_divisive

Record = dict[str, Any]


def audits(
    comparisons: pl.LazyFrame,
    votes: pl.LazyFrame,
    predicted: pl.LazyFrame,
    *,
    counted_kinds: list[str],
    judge_kind: str,
    most: int,
    endpoint: Endpoint | None,
    answers: Path,
    asked_pairs: int,
    divisive_share: float,
    bootstrap: int,
    seed: int,
) -> Record:
    """`judge_audit` of the `most` annotators of `judge_kind` with the most votes, each against the votes of the others.

    The votes of `counted_kinds` make the agreement classes, without those of the judge itself. Where systems are named
    and divergence is predicted (`PredictedDivergence`), `ranking` says how the judge's ranking of them changes when the
    most divisive `divisive_share` of the prompts is left out. An `endpoint` is one more judge, `<model> (endpoint)`, on
    at most `asked_pairs` pairs; see `preflow.judges.asked.endpoint_judge`.
    """
    counted = votes.filter(pl.col("annotator_kind").is_in(counted_kinds))
    divisive = comparisons.join(predicted.select("pair_id", score="diverging_score"), on="pair_id")
    scores = divisive.select("prompt_group", "score").collect()

    def audited(classes: pl.LazyFrame, verdicts: pl.DataFrame) -> Record:
        audit = judge_audit(comparisons, classes, verdicts, bootstrap=bootstrap, seed=seed)
        matches = system_matches(comparisons, verdicts)
        if matches.is_empty() or scores.is_empty():
            return {**audit, "ranking": None}
        weights = without_divisive(scores, share=divisive_share, weight=0.0)
        return {**audit, "ranking": dict(ranking_change(matches, weights, bootstrap=bootstrap, seed=seed))}

    found = {}
    for name in _judging(votes, judge_kind, most):
        found[name] = audited(_classes_without(comparisons, counted, name), verdicts_of(votes, name))
    if endpoint is not None:
        classes = _classes_without(comparisons, counted, endpoint.model)
        asked = endpoint_judge(comparisons, classes, most=asked_pairs, endpoint=endpoint, answers=answers)
        found[f"{endpoint.model} (endpoint)"] = audited(classes, asked)
    return {"judges": found}


def _judging(votes: pl.LazyFrame, kind: str, most: int) -> list[str]:
    """The annotators of a kind with the most votes, most first."""
    counts = votes.filter(pl.col("annotator_kind") == kind).group_by("annotator").len()
    ranked = counts.sort(["len", "annotator"], descending=[True, False]).head(most).collect()
    return ranked["annotator"].to_list()


def _classes_without(comparisons: pl.LazyFrame, counted: pl.LazyFrame, judge: str) -> pl.LazyFrame:
    """`AgreementClasses` by all counted votes but the judge's own."""
    return agreement_classes(comparisons, counted.filter(pl.col("annotator") != judge), careless=[]).lazy()
