import polars as pl
import pytest

from preflow.audit.schemas import AnnotatorQuality
from preflow.reasons.content import PROPERTIES
from preflow.reasons.evidence import CONTENT, JUDGEMENTS, pair_evidence, with_embeddings
from preflow.reasons.judgements import Carelessness, doubtful_votes, vote_evidence
from preflow.tokens import text_id
from tests.preflow.feedback import comparison, comparisons, content_hash, vote, votes

CARE = Carelessness(rush_share=0.4, min_agreement=0.4)


def quality(**agreement_high):
    schema = AnnotatorQuality.create_empty().schema
    rows = [
        dict.fromkeys(schema) | {"annotator": name, "agreement_high": high} for name, high in agreement_high.items()
    ]
    return pl.LazyFrame(rows, schema=schema)


def pair(n):
    return content_hash("pair", str(n))


def differences(lengths):
    rows = [{"pair_id": pair(i)} | dict.fromkeys(PROPERTIES, 0.0) | {"length": size} for i, size in enumerate(lengths)]
    return pl.DataFrame(rows).sort("pair_id")


def judged(cast, agreement=None):
    return doubtful_votes(votes(cast), quality(**(agreement or {})), CARE)


def of(table, n):
    return table.filter(pl.col("pair_id") == pair(n)).row(0, named=True)


def test_a_vote_is_doubted_for_haste_or_for_its_annotator_and_not_for_dissent():
    cast = [vote(pair(0), name, "a", seconds=seconds) for name, seconds in (("x", 20.0), ("y", 30.0), ("z", 7.0))]
    cast += [vote(pair(1), "x", "b", seconds=25.0), vote(pair(1), "w", "a"), vote(pair(1), "v", "a", seconds=25.0)]
    found = judged(cast, {"x": 0.45, "w": 0.39})
    assert sorted(found.filter("doubtful")["annotator"]) == ["w", "z"]


def test_haste_is_measured_against_votes_of_the_same_kind():
    cast = [vote(pair(0), f"person_{i}", "a", seconds=30.0) for i in range(3)]
    cast += [vote(pair(0), f"model_{i}", "b", seconds=0.5, annotator_kind="model") for i in range(3)]
    assert not judged(cast)["doubtful"].any()


def test_divergence_by_careless_votes_alone_is_told_apart():
    cast = [vote(pair(0), name, choice) for name, choice in (("x", "a"), ("y", "a"), ("careless", "b"))]
    cast += [vote(pair(1), name, choice) for name, choice in (("x", "a"), ("y", "b"), ("careless", "b"))]
    found = vote_evidence(judged(cast, {"careless": 0.2}), differences([0.0, 0.0, 0.0]), shrinkage=1.0)
    assert [of(found, n)["diverges"] for n in range(3)] == [1, 1, 0]
    assert [of(found, n)["only_doubtful"] for n in range(3)] == [1, 0, 0]
    assert of(found, 0)["doubtful_share"] == pytest.approx(1 / 3)
    assert of(found, 2)["doubtful_share"] == 0  # a pair without votes


def test_a_split_by_length_worked_by_hand():
    """Equal differences, so each is 1 in units of their root mean square; x always takes the longer one, y never."""
    cast = [vote(pair(n), name, choice) for n in range(4) for name, choice in (("x", "a"), ("y", "b"))]
    found = vote_evidence(judged(cast), differences([0.7] * 4), shrinkage=1.0)
    # Leanings from the three other pairs: 3 / (3 + 1) and -3 / 4; the covariance of (1, -1) with them is 3/4.
    assert found["split_length"].to_list() == pytest.approx([0.75] * 4)
    assert found.select(pl.exclude("split_length")).select(pl.col("^split_.*$")).sum_horizontal().to_list() == [0] * 4


def test_a_split_does_not_depend_on_the_orientation():
    choices = {"x": "aaba", "y": "babb", "z": "abta"}
    cast = [vote(pair(n), name, {"t": "tie"}.get(made[n], made[n])) for name, made in choices.items() for n in range(4)]
    turn = {"a": "b", "b": "a", "tie": "tie"}
    sizes = [0.5, -1.0, 0.2, 2.0]
    there = vote_evidence(judged(cast), differences(sizes), shrinkage=2.0)
    turned = [row | {"choice": turn[row["choice"]]} for row in cast]
    back = vote_evidence(judged(turned), differences([-size for size in sizes]), shrinkage=2.0)
    assert there["split_length"].abs().max() > 0
    assert there["split_length"].to_list() == pytest.approx(back["split_length"].to_list())


def test_annotators_with_one_vote_lean_nowhere():
    cast = [vote(pair(n), f"{name}{n}", choice) for n in range(3) for name, choice in (("x", "a"), ("y", "b"))]
    found = vote_evidence(judged(cast), differences([1.0, -2.0, 0.5]), shrinkage=1.0)
    assert found["split_length"].to_list() == [0, 0, 0]


def test_all_evidence_in_one_table():
    rows = [comparison("p", "A long answer, this one.", "Short."), comparison("q", "One.", "Two.")]
    cast = [vote(rows[0]["pair_id"], "x", "a"), vote(rows[0]["pair_id"], "y", "b")]
    found = pair_evidence(comparisons(rows), votes(cast), quality(), care=CARE, shrinkage=1.0)
    assert found.columns == ["pair_id", "diverges", *CONTENT, *JUDGEMENTS]
    assert found["pair_id"].to_list() == sorted(row["pair_id"] for row in rows)
    assert found["diverges"].sum() == 1
    assert not found.select(pl.any_horizontal(pl.all().is_null())).to_series().any()


def test_embeddings_become_distances_and_a_missing_one_is_named():
    rows = [comparison("p", "One.", "Two.")]
    evidence = pl.DataFrame({"pair_id": [rows[0]["pair_id"]]})
    embeddings = pl.DataFrame({"text_id": [text_id("One."), text_id("Two.")], "embedding": [[0.0, 1.0], [0.5, -1.0]]})
    found = with_embeddings(evidence, comparisons(rows), embeddings)
    assert found.select("distance_0", "distance_1").row(0) == (0.5, 2.0)
    with pytest.raises(ValueError, match=f"1 responses have no embedding.*{text_id('Two.')}"):
        with_embeddings(evidence, comparisons(rows), embeddings.head(1))
