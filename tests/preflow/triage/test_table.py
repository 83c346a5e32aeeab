from dataclasses import replace
from math import exp

import polars as pl
import pytest

from preflow.audit.schemas import Contradictions, DuplicateClusters, VoteSummary
from preflow.divergence.schemas import AgreementClasses, AnnotatorClusters, PredictedDivergence
from preflow.pairs import Verdicts
from preflow.reasons.schemas import SOURCES, DivergenceReasons
from preflow.reward.schemas import RewardPredictions
from preflow.treatments.schemas import DifficultyScores
from preflow.triage.groups import group_preferences
from preflow.triage.rules import RULES, Thresholds
from preflow.triage.schemas import RECOMMENDATIONS, Triage
from preflow.triage.suspicion import suspected_flip
from preflow.triage.table import STRONGEST_FIRST, Evidence, recommendation_counts, triage
from tests.preflow.feedback import comparison, comparisons, vote, votes

SETTINGS = {"flip_share": 0.1, "thresholds": Thresholds(relabel=0.8, review=0.4, too_hard=2.0)}
NAMES = [rule.name for rule in RULES]


def frame(schema, rows, **constant):
    empty = dict.fromkeys(schema.column_names())
    return schema.cast(pl.DataFrame([empty | constant | row for row in rows], infer_schema_length=None)).lazy()


def row_of(name):
    return comparison(name, f"{name} a", f"{name} b")


def id_of(name):
    return row_of(name)["pair_id"]


def verdict(name, said):
    outcome = "undecided" if said is None else "tie" if said == "tie" else "pair"
    source = None if said is None else "majority"
    return {"pair_id": id_of(name), "outcome": outcome, "verdict": said, "label_source": source}


def one_pair_a_rule():
    """A pair named after each rule, made so that exactly this rule holds first."""
    said = dict.fromkeys(NAMES, "a") | {"unlabelled": None, "tie": "tie"}
    diverging = ("groups_oppose", "errors_divide", "diverging")
    classes = [
        {
            "pair_id": id_of(name),
            "agreement_class": "diverging" if name in (*diverging, "careless_outvoted") else "residual",
            "careful_class": "diverging" if name in diverging else "residual",
            "careful_preferred": "b" if name == "careless_outvoted" else None,
        }
        for name in NAMES
    ]
    doubts = {"likely_flip": 0.99, "doubtful": 0.9}
    reasons = [
        {"pair_id": id_of(name), "source": source, "label": label, "class": of, "probability": p, "evidence": "seen"}
        for name, source, label, of, p in (
            ("errors_divide", "tagger", "hallucination", "errors", 0.9),
            ("errors_divide", "rule", "hallucination", "errors", None),
            ("diverging", "endpoint", "verbosity", "style", None),
            ("diverging", "tagger", "verbosity", "style", 0.7),
            ("diverging", "tagger", "careless_rating", "errors", 0.7),
        )
    ]
    cluster = {"exact_cluster": id_of("agreed"), "near_cluster": id_of("agreed"), "n_exact": 2, "n_near": 2}
    alone = {"n_exact": 1, "n_near": 1}
    evidence = replace(
        Evidence.empty(),
        classes=frame(
            AgreementClasses, classes, n_annotators=4, substantial=False, n_careless=0, careful_substantial=False
        ),
        groups=frame_of_groups(),
        reasons=frame(DivergenceReasons, reasons),
        rewards=frame(
            RewardPredictions,
            [{"pair_id": id_of(name), "probability": 1 - p} for name, p in doubts.items()],
            split="train", reward_chosen=1.0, reward_rejected=2.5, suspicion=2.0,
        ),
        difficulty=frame(
            DifficultyScores, [{"pair_id": id_of("too_hard")}], scored_by="f" * 32, difficulty=2.5, flip_suspicion=0.5
        ),
        duplicates=frame(
            DuplicateClusters,
            [
                {"pair_id": id_of(name)}
                | (
                    cluster
                    if name in ("agreed", "repeated")
                    else alone | {"exact_cluster": id_of(name), "near_cluster": id_of(name)}
                )
                for name in NAMES
            ],
        ),
        contradictions=frame(
            Contradictions,
            [{"pair_id": id_of("contradicted"), "other_pair_id": "0" * 32, "kind": "mirrored", "detail": "a, b"}],
        ),
    )  # fmt: skip
    return (
        comparisons([row_of(name) for name in NAMES]),
        frame(Verdicts, [verdict(n, s) for n, s in said.items()]),
        evidence,
    )


def frame_of_groups():
    pair = id_of("groups_oppose")
    given = votes(
        [vote(pair, who, choice) for who, choice in (("p", "a"), ("q", "a"), ("r", "b"), ("s", "b"), ("t", "b"))]
    )
    members = pl.LazyFrame(
        {"annotator": ["p", "q", "r", "s", "t"], "n_contested": 9, "n_partners": 4, "cluster": [0, 0, 1, 1, None]}
    )
    return group_preferences(given, AnnotatorClusters.cast(members)).lazy()


def decided_rows():
    made = one_pair_a_rule()
    return triage(*made, **SETTINGS), {name: id_of(name) for name in NAMES}


def test_each_rule_decides_the_pair_that_is_made_for_it():
    table, ids = decided_rows()
    found = dict(table.select("pair_id", "rule").iter_rows())
    first = min(ids["agreed"], ids["repeated"])  # of two copies the least id stands
    copies = {first: "agreed", max(ids["agreed"], ids["repeated"]): "repeated"}
    assert {found[ids[name]] for name in NAMES} == set(NAMES)
    assert all(found[ids[name]] == name for name in NAMES if ids[name] not in copies)
    assert {pair: found[pair] for pair in copies} == copies
    assert {rule.recommendation for rule in RULES} == set(RECOMMENDATIONS)
    Triage.validate(table)


def test_evidence_stands_beside_the_recommendation():
    table, ids = decided_rows()
    row = {name: table.row(by_predicate=pl.col("pair_id") == pair, named=True) for name, pair in ids.items()}
    assert row["errors_divide"]["reasons"] == [{"label": "hallucination", "source": "rule", "probability": None}]
    assert [reason["label"] for reason in row["diverging"]["reasons"]] == ["careless_rating", "verbosity"]
    assert {reason["source"] for reason in row["diverging"]["reasons"]} == {"tagger"}, "its probability is calibrated"
    assert row["likely_flip"]["reward_gap"] == -1.5, "of a, the chosen one, minus that of b"
    assert row["too_hard"]["flip_suspicion"] == 0.5
    assert row["agreed"]["suspected_flip"] is None, "nothing was measured"
    assert row["contradicted"]["contradicted"]
    assert row["tie"]["expected_value"] == 0


def test_every_source_of_reasons_has_its_rank():
    assert sorted(STRONGEST_FIRST) == sorted(SOURCES)


def test_expected_value_is_p_wrong_times_pull_worked_by_hand():
    table, ids = decided_rows()
    value = dict(table.select("pair_id", "expected_value").iter_rows())
    odds = 0.1 / 0.9 * 0.9 / 0.1  # a prior of .1 and a model that gives the label .1: as likely as not
    assert value[ids["doubtful"]] == pytest.approx(odds / (1 + odds) * 0.9)
    assert value[ids["too_hard"]] == pytest.approx(0.1 * (1 - exp(-2.5)))
    assert value[ids["unlabelled"]] == pytest.approx(0.5 * 0.5)


def test_the_predicted_gap_has_its_spread():
    names = ["agreed"]
    predicted = {
        "mu_a": 1.0,
        "mu_b": -1.0,
        "sigma_a": 3.0,
        "sigma_b": 4.0,
        "diverging_score": 0.0,
        "opposite_sides": 0.4,
    }
    bins = dict.fromkeys(("p_b_clear", "p_b_slight", "p_tie", "p_a_slight", "p_a_clear"), 0.2)
    evidence = replace(
        Evidence.empty(), predicted=frame(PredictedDivergence, [{"pair_id": id_of("agreed")} | predicted | bins])
    )
    table = triage(
        comparisons([row_of(n) for n in names]), frame(Verdicts, [verdict("agreed", "b")]), evidence, **SETTINGS
    )
    assert table.select("reward_gap", "gap_spread", "opposite_sides").row(0) == (2.0, 5.0, 0.4)


def test_votes_alone_leave_the_prior():
    summary = {"n_votes": 3, "n_a": 1, "n_b": 2, "n_tie": 0, "share_a": 1 / 3, "entropy": 0.5, "majority": "b"}
    summary |= {"pair_id": id_of("agreed"), "worker_label": "b", "worker_share_a": 0.25}
    evidence = replace(Evidence.empty(), vote_summary=frame(VoteSummary, [summary]))
    table = triage(comparisons([row_of("agreed")]), frame(Verdicts, [verdict("agreed", "b")]), evidence, **SETTINGS)
    assert table["worker_share"].item() == 0.75
    assert table["suspected_flip"].item() == pytest.approx(0.1), "votes acquit nobody: the prior is left"


def test_a_split_vote_leaves_the_prior_and_a_clear_one_the_models_word():
    row = {"label": "a", "label_source": "majority", "probability": 0.2, "flip_suspicion": 0.6}
    shares = [0.5, 1.0, 0.75]
    rows = pl.DataFrame([row | {"worker_share": share} for share in shares])
    found = rows.select(suspected_flip(flip_share=0.1)).to_series()
    models = 0.8 * 0.6 / (0.8 * 0.6 + 0.2 * 0.4)
    against = 0.25 * (1 - models) + 0.75 * models
    odds = [1 / 9, 4 * 1.5 / 9, against / (1 - against) / 9]
    assert found.to_list() == pytest.approx([one / (1 + one) for one in odds])


def test_nothing_measured_is_a_table_of_nulls():
    rows = [row_of("one"), row_of("two")]
    decided = frame(Verdicts, [verdict("one", "a"), verdict("two", None)])
    table = triage(comparisons(rows), decided, Evidence.empty(), **SETTINGS)
    assert sorted(table["rule"]) == ["agreed", "unlabelled"]
    assert table["n_votes"].to_list() == [0, 0]
    assert table["difficulty"].is_null().all()
    assert len(recommendation_counts(table.lazy())) == 2


def test_same_table_for_rows_in_another_order():
    rows, decided, evidence = one_pair_a_rule()
    again = triage(rows.reverse(), decided.reverse(), evidence, **SETTINGS)
    assert again.equals(triage(rows, decided, evidence, **SETTINGS))


def test_scores_of_two_models_are_refused():
    scores = [{"pair_id": id_of("agreed"), "scored_by": letter * 32} for letter in "ef"]
    evidence = replace(Evidence.empty(), difficulty=frame(DifficultyScores, scores, difficulty=1.0, flip_suspicion=0.5))
    with pytest.raises(ValueError, match="scores of one, not of 2"):
        triage(comparisons([row_of("agreed")]), frame(Verdicts, [verdict("agreed", "a")]), evidence, **SETTINGS)


def test_thresholds_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match=r"review=0.9, relabel=0.5"):
        Thresholds(relabel=0.5, review=0.9, too_hard=2.0)


def test_a_flip_share_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"flip_share=0.0"):
        triage(*one_pair_a_rule(), **SETTINGS | {"flip_share": 0.0})
