"""Triage, pluralistic pairs and the judge audit, called as the plain functions they are on a handful of rows."""

from dataclasses import asdict

import polars as pl
import pytest

from assets.audit import aggregate_votes, deduplicate
from assets.divergence import DivergenceParams, classify
from assets.endpoint import EndpointParams
from assets.judges import JudgesParams, judge_audit
from assets.pairs import decide
from assets.triage import TriageParams, group_preferences, pluralistic_pairs, sort_out
from pipelines import ROOT
from pipelines.graph import Graph
from preflow.divergence.schemas import PredictedDivergence
from preflow.reasons.schemas import DivergenceReasons
from preflow.reward_models.schemas import RewardScores
from preflow.treatments.schemas import DifficultyScores, TreatedPairs
from preflow.triage.review import read_queue
from preflow.triage.schemas import Triage
from tests.assets.test_audit_and_pairs import AUDIT, PAIRS
from tests.preflow.endpoint.server import endpoint, judging
from tests.preflow.feedback import comparison, comparisons, vote, votes

N = 12
PARAMS = Graph(ROOT).params


def section(name, kind):
    found = PARAMS[name]
    assert isinstance(found, kind)
    return found


@pytest.fixture(scope="module")
def known():
    """Twelve questions: agreed, tied and diverging in turn; the first is asked again and judged the other way."""
    rows = [comparison(f"question {n}", f"good answer {n}", f"bad answer {n}") for n in range(N)]
    mirrored = comparison("question 0", "bad answer 0", "good answer 0")
    said = {0: ("a", "a", "a"), 1: ("tie", "tie", "a"), 2: ("a", "b", "a")}
    cast = [
        vote(row["pair_id"], name, choice, shown_first="a")
        for n, row in enumerate(rows)
        for name, choice in zip("xyz", said[n % 3], strict=True)
    ]
    cast += [vote(mirrored["pair_id"], name, "a", shown_first="a") for name in "xyz"]
    given = comparisons([*rows, mirrored]), votes(cast)
    clusters, contradictions, splits, _ = deduplicate(*given, audit=AUDIT)
    summary, _, _ = aggregate_votes(*given, audit=AUDIT)
    preferred, decisions, _, _, _ = decide(given[0], summary, splits, contradictions, pairs=PAIRS)
    classes, groups, _ = classify(*given, divergence=section("divergence", DivergenceParams))
    return {
        "comparisons": given[0],
        "votes": given[1],
        "preference_pairs": preferred,
        "decisions": decisions,
        "vote_summary": summary,
        "agreement_classes": classes,
        "annotator_clusters": groups,
        "splits": splits,
        "duplicate_clusters": clusters,
        "contradictions": contradictions,
    }


def of(known, *names):
    return {name: known[name] for name in names}


@pytest.fixture(scope="module")
def sorted_out(known):
    divergence = section("divergence", DivergenceParams)
    groups = group_preferences(**of(known, "votes", "annotator_clusters"), divergence=divergence)
    unmeasured = {
        "divergence_reasons": DivergenceReasons,
        "predicted_divergence": PredictedDivergence,
        "reward_scores": RewardScores,
        "difficulty_scores": DifficultyScores,
    }
    names = ("comparisons", "decisions", "vote_summary", "agreement_classes", "duplicate_clusters", "contradictions")
    empty = {name: schema.create_empty().lazy() for name, schema in unmeasured.items()}
    triage = section("triage", TriageParams)
    return sort_out(**of(known, *names), **empty, group_preferences=groups, triage=triage)


def test_every_comparison_has_a_recommendation_and_its_rule(known, sorted_out):
    table, _, counts = sorted_out
    rows = Triage.validate(table.collect())
    assert set(rows["pair_id"]) == set(known["comparisons"].collect()["pair_id"])
    assert sum(rule["pairs"] for rule in counts["rules"]) == len(rows) == N + 1
    rules = dict(rows.group_by("rule").len().rows())
    assert rules["contradicted"] == 2
    assert rules["tie"] == 4
    assert rules["diverging"] == 4


def test_the_queue_comes_back_from_both_files(sorted_out, tmp_path):
    _, queue, _ = sorted_out
    queue.save_to_disk(tmp_path)
    ids = queue.rows["pair_id"].to_list()
    assert ids
    for name in ("queue.csv", "queue.jsonl"):
        assert read_queue(tmp_path / name)["pair_id"].to_list() == ids


def test_pluralistic_pairs_follow_the_class(known):
    divergence = section("divergence", DivergenceParams)
    groups = group_preferences(**of(known, "votes", "annotator_clusters"), divergence=divergence)
    names = ("comparisons", "preference_pairs", "decisions", "agreement_classes", "splits")
    made = pluralistic_pairs(
        **of(known, *names), group_preferences=groups, triage=section("triage", TriageParams)
    ).collect()
    reasons = dict(TreatedPairs.validate(made).group_by("reason").len().rows())
    shares = made.filter(pl.col("reason") == "diverging_soft_label")["share"]
    assert shares.to_list() == pytest.approx([2 / 3] * 4)
    assert reasons["preference_keep"] == 5
    assert reasons["diverging_soft_label"] == 4
    assert reasons["tie_drop"] == 4


def test_people_can_be_audited_as_judges(known):
    judges = section("judges", JudgesParams).model_copy(update={"annotator_kind": "person"})
    predicted = PredictedDivergence.create_empty().lazy()
    divergence = section("divergence", DivergenceParams)
    found = judge_audit(
        **of(known, "comparisons", "votes"), predicted_divergence=predicted, divergence=divergence, judges=judges
    )
    assert list(found["judges"]) == ["x", "y"]
    one = found["judges"]["x"]
    assert one["n_pairs"] == N + 1
    assert one["winner_rate"]["preference"]["estimate"] == 1.0
    assert one["ranking"] is None


def test_an_endpoint_is_one_more_judge(known, tmp_path):
    with judging(lambda a, b: "A") as (url, requests):
        asked = {"endpoint": EndpointParams(**asdict(endpoint(url))), "answers": str(tmp_path / "answers")}
        found = judge_audit(
            **of(known, "comparisons", "votes"),
            predicted_divergence=PredictedDivergence.create_empty().lazy(),
            divergence=section("divergence", DivergenceParams),
            judges=section("judges", JudgesParams).model_copy(update=asked | {"asked_pairs": 6}),
        )
    one = found["judges"]["judge (endpoint)"]
    assert (one["n_pairs"], len(requests)) == (6, 12)
    assert one["position"]["for_first"]["estimate"] == 1.0
