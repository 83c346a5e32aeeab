"""The audit of every judge among the annotators."""

from typing import Any

import polars as pl

from preflow.divergence.classes import agreement_classes
from preflow.judges.audit import judge_audit, verdicts_of
from preflow.judges.rankings import ranking_change, system_matches, without_divisive


def audits(
    comparisons: pl.LazyFrame,
    votes: pl.LazyFrame,
    predicted: pl.LazyFrame,
    *,
    counted_kinds: list[str],
    judge_kind: str,
    most: int,
    divisive_share: float,
    bootstrap: int,
    seed: int,
) -> dict[str, Any]:
    """`judge_audit` of the `most` annotators of `judge_kind` with the most votes, each against the votes of the others.

    The votes of `counted_kinds` make the agreement classes, without those of the judge itself. Where systems are named
    and divergence is predicted (`PredictedDivergence`), `ranking` says how the judge's ranking of them changes when the
    most divisive `divisive_share` of the prompts is left out.
    """
    judging = votes.filter(pl.col("annotator_kind") == judge_kind).group_by("annotator").len()
    names = judging.sort(["len", "annotator"], descending=[True, False]).head(most).collect()["annotator"].to_list()
    how: dict[str, int] = {"bootstrap": bootstrap, "seed": seed}
    divisive = comparisons.join(predicted.select("pair_id", score="diverging_score"), on="pair_id")
    scores = divisive.select("prompt_group", "score").collect()
    found: dict[str, Any] = {}
    for name in names:
        others = votes.filter(pl.col("annotator_kind").is_in(counted_kinds), pl.col("annotator") != name)
        classes = agreement_classes(comparisons, others, careless=[]).lazy()
        verdicts = verdicts_of(votes, name)
        found[name] = dict(judge_audit(comparisons, classes, verdicts, **how))
        matches = system_matches(comparisons, verdicts)
        if matches.is_empty() or scores.is_empty():
            found[name]["ranking"] = None
            continue
        weights = without_divisive(scores, share=divisive_share, weight=0.0)
        found[name]["ranking"] = dict(ranking_change(matches, weights, **how))
    return {"judges": found}
