import polars as pl
import pytest

from preflow.pairs import Verdicts
from preflow.triage.review import apply_overrides, overrides, read_queue, review_queue, write_queue
from preflow.triage.table import triage
from tests.preflow.feedback import comparison, comparisons
from tests.preflow.triage.test_table import NAMES, SETTINGS, one_pair_a_rule, row_of

HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "'=1",
    "''=1",
    "\uff1d1",
    "'tis",
    "it's",
    'say "a",\r\nb',
]


@pytest.fixture
def queue():
    rows, decided, evidence = one_pair_a_rule()
    return review_queue(triage(rows, decided, evidence, **SETTINGS).lazy(), rows, size=100)


def hostile_queue(text):
    rows = comparisons([comparison(text, text, f"{text} b")])
    decided = Verdicts.create_empty().lazy()
    _, _, evidence = one_pair_a_rule()
    return review_queue(triage(rows, decided, evidence, **SETTINGS).lazy(), rows, size=1)


def filled(queue, **cells):
    return queue.with_columns(pl.lit(value).alias(name) for name, value in cells.items())


def test_the_most_valuable_looks_come_first_with_full_texts(queue):
    assert sorted(queue["rule"]) == [
        "careless_outvoted",
        "contradicted",
        "doubtful",
        "errors_divide",
        "likely_flip",
        "unlabelled",
    ]
    assert queue["expected_value"].to_list() == sorted(queue["expected_value"], reverse=True)
    texts = dict(queue.select("rule", "response_b").iter_rows())
    assert texts["likely_flip"] == row_of("likely_flip")["response_b"]
    assert queue["decision"].is_null().all()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("text", HOSTILE)
def test_texts_come_back_byte_for_byte(kind, text, tmp_path):
    queue = hostile_queue(text)
    write_queue(queue, tmp_path / f"queue.{kind}")
    back = read_queue(tmp_path / f"queue.{kind}")
    assert back["response_a"].to_list() == [text]
    assert back["response_b"].to_list() == [f"{text} b"]
    assert back["pair_id"].to_list() == queue["pair_id"].to_list()


@pytest.mark.parametrize("text", HOSTILE[:7])
def test_no_cell_of_the_csv_starts_a_formula(text, tmp_path):
    write_queue(hostile_queue(text), tmp_path / "queue.csv")
    raw = pl.read_csv(tmp_path / "queue.csv", infer_schema=False)
    assert raw["response_a"].to_list() == [f"'{text}"]
    words = [name for name in raw.columns if name not in ("expected_value", "reward_gap")]
    assert not any(
        str(cell).startswith(tuple("=+-@\t\r\n")) for name in words for cell in raw[name] if cell is not None
    )


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_round_trip_from_the_queue_to_new_labels(queue, kind, tmp_path):
    rows, decided, _ = one_pair_a_rule()
    before = decided.collect()
    decision = (
        pl.when(pl.col("rule") == "likely_flip")
        .then(pl.lit("b"))
        .when(pl.col("rule") == "doubtful")
        .then(pl.lit("drop"))
    )
    given = queue.with_columns(decision=decision, reviewer=pl.lit("=ann"), note=pl.lit("-looked, twice"))
    write_queue(given, tmp_path / f"filled.{kind}")
    accepted, refused = overrides(read_queue(tmp_path / f"filled.{kind}"), rows)
    assert refused.is_empty()
    assert accepted.select("reviewer", "note").unique().row(0) == ("=ann", "-looked, twice")
    after = apply_overrides(decided, accepted.lazy())
    changed = after.join(before, on=after.columns, how="anti", nulls_equal=True)
    found = {row["pair_id"]: (row["outcome"], row["verdict"], row["label_source"]) for row in changed.to_dicts()}
    expected = {"likely_flip": ("pair", "b", "gold"), "doubtful": ("undecided", None, None)}
    assert found == {row_of(name)["pair_id"]: row for name, row in expected.items()}
    assert decided.collect().equals(before), "nothing is edited in place"
    Verdicts.validate(after)


def test_bad_decisions_are_refused_with_their_row_and_reason():
    rows = comparisons([row_of(name) for name in NAMES])
    known = [row_of(name)["pair_id"] for name in NAMES]
    given = pl.DataFrame(
        [
            (known[0], "a", "ann", None),
            ("f" * 32, "a", "ann", None),
            (known[1], "c", "ann", None),
            (known[2], "b", " ", None),
            (known[3], "a", "ann", None),
            (known[3], "b", "bob", None),
            (known[4], "", "ann", "no time"),
            (known[0], "a", "bob", None),
            (known[0], "a", "ann", "again"),
            (None, "a", "ann", None),
        ],
        schema=["pair_id", "decision", "reviewer", "note"],
        orient="row",
    )
    accepted, refused = overrides(given, rows)
    assert accepted.select("pair_id", "reviewer").rows() == [(known[0], "ann"), (known[0], "bob")]
    assert dict(refused.select("row", "reason").iter_rows()) == {
        2: "unknown_pair", 3: "unknown_decision", 4: "no_reviewer", 5: "conflicting_decisions",
        6: "conflicting_decisions", 9: "repeated", 10: "unknown_pair",
    }  # fmt: skip


def test_a_decision_on_a_pair_without_a_verdict_is_refused(queue):
    rows, decided, _ = one_pair_a_rule()
    accepted, _ = overrides(filled(queue, decision="a", reviewer="ann"), rows)
    with pytest.raises(ValueError, match="6 overrides are on pairs without a verdict"):
        apply_overrides(decided.head(0), accepted.lazy())


def test_files_that_are_no_queue_are_refused(queue, tmp_path):
    with pytest.raises(ValueError, match=r"is a .csv or a .jsonl"):
        write_queue(queue, tmp_path / "queue.xlsx")
    (tmp_path / "other.csv").write_text("pair_id,verdict\n1,2\n")
    with pytest.raises(ValueError, match="no column decision, reviewer"):
        read_queue(tmp_path / "other.csv")
    (tmp_path / "latin.csv").write_bytes("pair_id,decision,reviewer\n1,a,Jos\xe9\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_queue(tmp_path / "latin.csv")
    with pytest.raises(ValueError, match="size=0"):
        review_queue(pl.LazyFrame(), pl.LazyFrame(), size=0)
