"""The audit and the pairs, called as the plain functions they are on a handful of rows."""

from pathlib import Path

import polars as pl
import pytest

from assets.audit import AuditParams, aggregate_votes, deduplicate
from assets.pairs import PairsParams, decide
from preflow.audit.schemas import Contradictions, DuplicateClusters, Splits, VoteSummary
from preflow.pairs import Verdicts
from preflow.schemas import PreferencePairs
from tests.preflow.feedback import comparison, comparisons, vote, votes

AUDIT = AuditParams(
    near_threshold=0.8,
    num_perm=64,
    validation_fraction=0.2,
    test_fraction=0.2,
    worker_model="dawid_skene",
    worker_iterations=20,
    seed=0,
)
PAIRS = PairsParams(
    label="majority",
    min_agreement=0.0,
    tokenizer="package:all-MiniLM-L6-v2",
    max_tokens=64,
    overrides="inputs/overrides.csv",
)


@pytest.fixture
def feedback() -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Six questions, one of them asked twice with the sides exchanged and judged the other way, one tied."""
    rows = [comparison(f"question {n}", f"good answer {n}", f"bad answer {n}") for n in range(6)]
    mirrored = comparison("question 0", "bad answer 0", "good answer 0")
    cast = [vote(row["pair_id"], name, "a") for row in [*rows[:5], mirrored] for name in ("x", "y", "z")]
    tied = [vote(rows[5]["pair_id"], name, choice) for name, choice in (("x", "a"), ("y", "b"))]
    return comparisons([*rows, mirrored]), votes([*cast, *tied])


def test_what_is_compared_twice_is_found_and_stays_in_one_split(feedback: tuple[pl.LazyFrame, pl.LazyFrame]) -> None:
    clusters, contradictions, splits, leakage = deduplicate(*feedback, audit=AUDIT)
    assert DuplicateClusters.validate(clusters.collect())["n_exact"].sort().to_list() == [1, 1, 1, 1, 1, 2, 2]
    assert Contradictions.validate(contradictions.collect())["kind"].to_list() == ["mirrored"]
    assert set(Splits.validate(splits.collect())["split"]) == {"train", "validation", "test"}
    assert (leakage["prompt_groups"], leakage["exact_clusters"], leakage["near_clusters"]) == (0, 0, 0)


def test_votes_become_pairs_and_ties_are_counted(feedback: tuple[pl.LazyFrame, pl.LazyFrame]) -> None:
    rows, given = feedback
    _, contradictions, splits, _ = deduplicate(rows, given, audit=AUDIT)
    summary, _, agreement = aggregate_votes(rows, given, audit=AUDIT)
    assert VoteSummary.validate(summary.collect())["n_votes"].sum() == agreement["n_votes"] == 20
    pairs, decisions, overrides, refused, outcomes = decide(rows, summary, splits, contradictions, pairs=PAIRS)
    assert len(Verdicts.validate(decisions.collect())) == 7
    assert overrides.collect().is_empty()
    assert refused.collect().is_empty()
    made = PreferencePairs.validate(pairs.collect())
    assert outcomes == {"pair": 6, "tie": 1, "undecided": 0}
    assert len(made) == 6
    assert made.filter(pl.col("flags").list.contains("contradicted")).height == 2


def test_a_reviewer_is_heard_and_a_stranger_is_refused(
    feedback: tuple[pl.LazyFrame, pl.LazyFrame], tmp_path: Path
) -> None:
    rows, given = feedback
    _, contradictions, splits, _ = deduplicate(rows, given, audit=AUDIT)
    summary, _, _ = aggregate_votes(rows, given, audit=AUDIT)
    known = rows.collect()["pair_id"][2]
    filled = tmp_path / "overrides.csv"
    filled.write_text(f"pair_id,decision,reviewer,note\n{known},b,r1,\n{'0' * 32},a,r1,\n")
    params = PAIRS.model_copy(update={"overrides": str(filled)})
    pairs, _, overrides, refused, _ = decide(rows, summary, splits, contradictions, pairs=params)
    turned = pairs.filter(pl.col("pair_id") == known).collect()
    assert (turned["chosen"].item(), turned["label_source"].item()) == ("bad answer 2", "gold")
    assert overrides.collect()["decision"].to_list() == ["b"]
    assert refused.collect()["reason"].to_list() == ["unknown_pair"]


def test_the_same_feedback_gives_the_same_tables(feedback: tuple[pl.LazyFrame, pl.LazyFrame]) -> None:
    once, again = (deduplicate(*feedback, audit=AUDIT)[:3] for _ in range(2))
    assert len(once) == 3
    assert all(frame.collect().equals(other.collect()) for frame, other in zip(once, again, strict=True))
