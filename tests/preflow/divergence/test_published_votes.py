"""The loaders of published votes up to the agreement class, on generated files of the published shape."""

import json

import polars as pl
import pytest

from preflow.divergence.classes import agreement_classes, class_counts
from preflow.ingest.intake import ingest

PAIRS = 200
PREFERENCES = ("A-is-clearly-better", "A-is-slightly-better", "Tie", "B-is-slightly-better", "B-is-clearly-better")


def taken(records, tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    found = ingest(path, formats={}, hub=[], max_field_chars=10_000, min_score_margin=0.0, scratch=tmp_path / "scratch")
    return found.comparisons, found.votes


def multipref(number):
    """78 of 200 pairs diverge: 39 %, 40 of them substantially."""
    diverging, clear = number < 78, number < 40
    against = ("B-is-clearly-better" if clear else "B-is-slightly-better") if diverging else "Tie"
    said = ["A-is-clearly-better", "A-is-slightly-better", "A-is-clearly-better", against]
    annotations = [{"evaluator": f"w{(number + k) % 30}", "overall_pref": one} for k, one in enumerate(said)]
    return {
        "comparison_id": str(number),
        "text": f"question {number}",
        "completion_a": "x",
        "completion_b": "y",
        "normal_worker_annotations": annotations[:2],
        "expert_worker_annotations": annotations[2:],
    }


def helpsteer2(number):
    """48 of 200 pairs diverge: 24 %."""
    strengths = [-2, -1, 2 if number < 48 else 0]
    return {
        "prompt": f"question {number}",
        "response_1": "x",
        "response_2": "y",
        "preference_strength": -1,
        "all_preferences_unprocessed": [{"strength": one, "justification": "so"} for one in strengths],
    }


@pytest.mark.claim("div-1")
def test_every_vote_is_kept_and_the_diverging_share_is_the_planted_one(tmp_path, record_claim):
    figures = []
    for make, votes_a_pair, share, substantial in ((multipref, 4, 0.39, 40), (helpsteer2, 3, 0.24, 48)):
        folder = tmp_path / make.__name__
        folder.mkdir()
        comparisons, votes = taken([make(number) for number in range(PAIRS)], folder)
        a_pair = votes.group_by("pair_id").agg(n=pl.len(), people=pl.col("annotator").n_unique()).collect()
        assert (a_pair["n"] == votes_a_pair).all()
        assert (a_pair["people"] == votes_a_pair).all()
        found = class_counts(agreement_classes(comparisons, votes, careless=[]))["all"]
        assert (found["diverging"] / PAIRS, found["substantial"]) == (share, substantial)
        figures.append(
            f"{make.__name__}: {len(a_pair)} pairs with {votes_a_pair} votes each, {share:.0%} diverge as made"
        )
    record_claim("; ".join(figures) + " (generated files; the shares of the published ones are not measured here)")
