from pathlib import Path

import numpy as np
import polars as pl
import pytest

from preflow.audit.schemas import AnnotatorQuality
from preflow.audit.votes import summarise_votes
from preflow.reasons.evidence import CONTENT, JUDGEMENTS
from preflow.reasons.reasons import found_reasons, trained_tagger
from preflow.reasons.schemas import CLASS_OF, DivergenceReasons, ReasonRemainders
from tests.preflow.endpoint.server import endpoint, judging
from tests.preflow.feedback import comparison, comparisons, vote, votes
from tests.preflow.reasons.conftest import CARE, THRESHOLDS

PLANTED = {"pairs": 200, "care": CARE, "shrinkage": 5.0, "inverse_l2": 1.0, "folds": 2}
HOW = {
    "care": CARE,
    "shrinkage": 5.0,
    "thresholds": THRESHOLDS,
    "min_probability": 0.5,
    "min_reasons": 2,
    "phrases": 2,
    "endpoint": None,
    "answers": Path("unused"),
}
QUESTION = "How do I keep the bread that I bake every Sunday fresh until the end of the week?"
LONG = "Let the loaf cool and wrap it in a cloth. Then keep it in a box of wood, away from the sun and the stove."
ROWS = [
    comparison(QUESTION, LONG, "Let the loaf cool and wrap it in a cloth."),
    comparison(
        f"{QUESTION} Please.", LONG, "Let the loaf cool and wrap it in a paper bag, and eat it soon, my friend."
    ),
    comparison(f"{QUESTION} Thanks.", LONG, "Let the loaf cool."),
]
DIFFER, UNEXPLAINED, AGREE = (row["pair_id"] for row in ROWS)
SAID = [
    vote(DIFFER, "x", "a", reason="A1 goes into more detail."),
    vote(DIFFER, "y", "b", reason="A2 is concise."),
    vote(UNEXPLAINED, "x", "a"),
    vote(UNEXPLAINED, "y", "b"),
    vote(AGREE, "x", "a", reason="A1 goes into more detail."),
    vote(AGREE, "y", "a", reason="A1 is longer."),
]


@pytest.fixture(scope="module")
def small():
    return trained_tagger(**PLANTED, seed=0)


def found(tagger, cast, rows=ROWS, **changes):
    frame, given = comparisons(rows), votes(cast)
    quality = AnnotatorQuality.create_empty()
    if cast:
        _, quality, _ = summarise_votes(frame, given, worker_model="dawid_skene", iterations=1, seed=0)
    reasons, remainders = found_reasons(frame, given, quality.lazy(), tagger, **HOW | changes)
    return DivergenceReasons.validate(reasons), ReasonRemainders.validate(remainders)


def test_the_tagger_sees_all_evidence_and_the_same_bytes_come_of_the_same_seed(small, tmp_path):
    assert small.columns == (*CONTENT, *JUDGEMENTS)
    assert set(small.heads) == CLASS_OF.keys() | {"unexplained"}
    for name, tagger in (
        ("once", small),
        ("again", trained_tagger(**PLANTED, seed=0)),
        ("other", trained_tagger(**PLANTED, seed=1)),
    ):
        tagger.save_pretrained(tmp_path / name)
    once, again, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("once", "again", "other"))
    assert once == again != other


def test_a_known_cause_is_named_by_what_is_measured_and_by_what_is_written(small):
    reasons, remainders = found(small, SAID)
    assert remainders.select("pair_id", "source").rows() == sorted(
        [(DIFFER, source) for source in ("rule", "written_reason", "tagger")]
        + [(UNEXPLAINED, source) for source in ("rule", "tagger")],
        key=lambda row: (row[0], ("rule", "written_reason", "tagger").index(row[1])),
    ), "where annotators agree no source looks, and where nobody wrote there is nothing written"
    of_length = reasons.filter((pl.col("pair_id") == DIFFER) & (pl.col("label") == "verbosity"))
    assert {"rule", "written_reason"} <= set(of_length["source"])  # two votes are too few for so small a tagger
    assert (of_length["probability"].is_null() == (of_length["source"] != "tagger")).all()


def test_no_cause_is_forced(small):
    reasons, remainders = found(small, SAID)
    by_rule = remainders.filter(pl.col("source") == "rule").select("pair_id", "n_causes", "unexplained").rows()
    assert (UNEXPLAINED, 0, 1.0) in by_rule
    assert reasons.filter((pl.col("source") == "rule") & (pl.col("pair_id") == UNEXPLAINED)).is_empty()
    assert remainders["n_causes"].sum() == len(reasons)


@pytest.mark.parametrize(
    "cast",
    [
        [],
        [vote(row["pair_id"], name, "a") for row, name in zip(ROWS, "xyz", strict=True)],
        [vote(row["pair_id"], name, "a", reason="A1.") for row in ROWS for name in "xy"],
        [vote(row["pair_id"], name, "tie") for row in ROWS for name in "xy"],
    ],
    ids=["no votes", "one vote each", "only one choice", "only ties"],
)
def test_where_nobody_differs_there_is_nothing_to_explain(small, cast):
    for table, schema in zip(found(small, cast), (DivergenceReasons, ReasonRemainders), strict=True):
        assert table.is_empty()
        assert table.schema == schema.create_empty().schema


def test_without_comparisons_there_is_nothing_to_explain(small):
    assert [len(table) for table in found(small, [], rows=[])] == [0, 0]


def test_annotators_with_one_choice_each_differ_all_the_same(small):
    cast = [vote(row["pair_id"], name, side) for row in ROWS for name, side in (("x", "a"), ("y", "b"))]
    reasons, remainders = found(small, cast)
    assert remainders["pair_id"].n_unique() == len(ROWS)
    assert not reasons.select(pl.any_horizontal(pl.col("evidence", "label").is_null())).to_series().any()
    assert np.isfinite(remainders["unexplained"].to_numpy()).all()


def test_reasons_without_a_word_worth_weighing_do_not_stop_the_rest(small):
    cast = [vote(DIFFER, "x", "a", reason="A1."), vote(DIFFER, "y", "b", reason="A2.")]
    reasons, remainders = found(small, cast)
    assert set(remainders["source"]) == {"rule", "written_reason", "tagger"}
    assert reasons.filter(pl.col("source") == "written_reason").is_empty()


def test_the_same_tables_whatever_the_order_of_the_rows(small):
    once, again = found(small, SAID), found(small, SAID[::-1], rows=ROWS[::-1])
    assert len(once[0]) > 0
    assert all(table.equals(other) for table, other in zip(once, again, strict=True))


def test_a_language_model_is_one_more_source_and_asked_about_diverging_pairs_alone(small, tmp_path):
    with judging(lambda a, b: '["verbosity"]' if LONG in (a, b) else "[]") as (url, requests):
        reasons, remainders = found(small, SAID, endpoint=endpoint(url), answers=tmp_path / "answers")
    plain = found(small, SAID)
    asked = remainders.filter(pl.col("source") == "endpoint")
    assert len(requests) == 2 * 2
    assert set(asked["pair_id"]) == {DIFFER, UNEXPLAINED}
    named = reasons.filter(pl.col("source") == "endpoint")
    assert set(named.select("pair_id", "label").rows()) == {(DIFFER, "verbosity"), (UNEXPLAINED, "verbosity")}
    for with_it, without in zip((reasons, remainders), plain, strict=True):
        assert with_it.filter(pl.col("source") != "endpoint").equals(without)
