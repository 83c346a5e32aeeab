import numpy as np
import polars as pl
import pytest

from preflow.audit.schemas import AnnotatorQuality, VoteSummary
from preflow.audit.votes import aggregation_against_gold, summarise_votes
from tests.preflow.feedback import comparison, comparisons, content_hash, judged_items, vote, votes

MODELS = ("dawid_skene", "mace")
SETTINGS = {"worker_model": "dawid_skene", "iterations": 100, "seed": 0}
ACCURACY = {"ann": 0.95, "bob": 0.6, "cid": 0.6, "dot": 0.55, "eve": 0.55, "fay": 0.5}


def simulated(n=600):
    """Annotators of known accuracy on three balanced classes; who errs picks one of the other two."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, n)
    choices = np.array(["a", "b", "tie"])
    rows = [comparison(f"q{i}", "one", "two", gold=str(choices[truth[i]])) for i in range(n)]
    given = []
    for name, accuracy in ACCURACY.items():
        chosen = np.where(rng.random(n) < accuracy, truth, (truth + rng.integers(1, 3, n)) % 3)
        given += [vote(rows[i]["pair_id"], name, str(choices[chosen[i]])) for i in range(n)]
    return comparisons(rows), votes(given)


def realised(rows, given):
    """The share of right votes that the draw gave each annotator, in order of name."""
    right = given.join(rows.select("pair_id", "gold"), on="pair_id").with_columns(pl.col("choice") == pl.col("gold"))
    return right.group_by("annotator").agg(pl.col("choice").mean()).sort("annotator").collect()["choice"].to_list()


@pytest.mark.parametrize("model", MODELS)
def test_planted_accuracies_are_recovered_and_beat_the_majority(model):
    rows, given = simulated()
    summary, quality, _ = summarise_votes(rows, given, **SETTINGS | {"worker_model": model})
    VoteSummary.validate(summary)
    AnnotatorQuality.validate(quality)
    assert quality["annotator"].to_list() == list(ACCURACY)
    assert quality["worker_accuracy"].to_list() == pytest.approx(realised(rows, given), abs=0.03)
    against = aggregation_against_gold(rows, summary.lazy())
    assert against["worker_accuracy"] > against["majority_accuracy"] + 0.05
    assert against["p_value"] < 1e-6


@pytest.mark.parametrize("model", MODELS)
def test_same_votes_give_the_same_tables_in_any_order(model):
    rows, given = simulated(60)
    shuffled = given.collect().sample(fraction=1, shuffle=True, seed=2).lazy()
    first, second = (
        summarise_votes(rows, v, **SETTINGS | {"worker_model": model, "iterations": 10}) for v in (given, shuffled)
    )
    assert first[0].equals(second[0])
    assert first[1].equals(second[1])
    assert first[2] == second[2]


def counted(units):
    """Votes of annotators 0, 1, 2... on units, one list of choices a unit (None: did not vote)."""
    ids = [content_hash(str(i)) for i in range(len(units))]
    given = [
        vote(pair_id, str(coder), choice)
        for pair_id, unit in zip(ids, units, strict=True)
        for coder, choice in enumerate(unit)
        if choice
    ]
    rows = [comparison(f"q{i}", "one", "two", pair_id=pair_id) for i, pair_id in enumerate(ids)]
    return comparisons(rows), votes(given)


def test_alpha_of_krippendorffs_worked_example():
    """Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section A: two coders, ten binary units."""
    first, second = "0100000000", "1110010010"  # four disagreements, 14 zeros and 6 ones: 1 - 19 * 4 / (14 * 6)
    units = [["ab"[int(x)], "ab"[int(y)]] for x, y in zip(first, second, strict=True)]
    assert summarise_votes(*counted(units), **SETTINGS)[2]["alpha"] == pytest.approx(1 - 19 * 4 / 84)


def test_a_repetition_is_no_second_coder():
    rows, given = counted([["a", "a"], ["b", "b"], ["a", "b"]])
    repeated = votes(given.drop("vote_id").collect().to_dicts() * 2)
    once, twice = (summarise_votes(rows, v, **SETTINGS) for v in (given, repeated))
    assert once[2]["alpha"] == twice[2]["alpha"]
    assert twice[2]["n_repeated_votes"] == 6
    assert twice[1]["agreement"].to_list() == once[1]["agreement"].to_list() == [pytest.approx(2 / 3)] * 2


def test_vote_picture_of_one_pair():
    summary, _, agreement = summarise_votes(*counted([["a", "a", "b", "tie"], ["a", "b", None, None]]), **SETTINGS)
    first, second = sorted(summary.iter_rows(named=True), key=lambda row: -row["n_votes"])
    assert (first["n_a"], first["n_b"], first["n_tie"], first["majority"], first["share_a"]) == (2, 1, 1, "a", 0.625)
    assert first["entropy"] == pytest.approx((0.5 * np.log(2) + 0.5 * np.log(4)) / np.log(3))
    assert (second["majority"], second["share_a"]) == ("tie", 0.5)
    assert agreement["undecided_share"] == 0.5
    assert agreement["share_a"] == pytest.approx(3.5 / 6)


def test_wilson_interval_by_hand():
    """8 of 10 agreements: Wilson's 95 % interval is 0.4902 to 0.9433 (Newcombe 1998 uses the same formula)."""
    units = [["a", "a", "a"]] * 8 + [["b", "a", "a"]] * 2
    quality = summarise_votes(*counted(units), **SETTINGS)[1]
    row = quality.filter(pl.col("annotator") == "0").row(0, named=True)
    assert (row["n_compared"], row["agreement"]) == (10, 0.8)
    assert row["agreement_low"] == pytest.approx(0.4902, abs=5e-5)
    assert row["agreement_high"] == pytest.approx(0.9433, abs=5e-5)


def test_position_bias_of_a_judge_who_takes_the_first():
    rows = [comparison(f"q{i}", "one", "two") for i in range(4)]
    given = votes([vote(row["pair_id"], "judge", side, shown_first=side) for row in rows for side in "ab"])
    summary, quality, agreement = summarise_votes(comparisons(rows), given, **SETTINGS)
    assert quality["share_first"].to_list() == [1.0]
    assert quality["share_a"].to_list() == [0.5]
    assert quality["agreement"].to_list() == [None]
    assert agreement["alpha"] is None
    assert summary["majority"].unique().to_list() == ["tie"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "units",
    [[["a"], ["b"]], [["a", "a"]], [["tie", "tie"], ["tie", "tie"]]],
    ids=["one annotator", "one pair", "one label"],
)
def test_thin_votes_are_summarised(model, units):
    summary, quality, _ = summarise_votes(*counted(units), **SETTINGS | {"worker_model": model})
    VoteSummary.validate(summary)
    AnnotatorQuality.validate(quality)
    assert summary["worker_label"].to_list() == summary["majority"].to_list()


def test_no_votes():
    rows = comparisons([comparison("q", "one", "two", gold="a")])
    summary, quality, agreement = summarise_votes(rows, votes([]), **SETTINGS)
    assert (len(summary), len(quality), agreement["n_votes"], agreement["alpha"]) == (0, 0, 0, None)
    assert aggregation_against_gold(rows, summary.lazy())["n_gold"] == 0


def test_more_votes_than_mace_can_multiply_are_refused():
    with pytest.raises(ValueError, match="301 votes"):
        summarise_votes(*counted([["a"] * 301]), **SETTINGS | {"worker_model": "mace"})


def test_a_tie_counts_half_against_gold():
    rows = [comparison("q0", "one", "two", gold="a"), comparison("q1", "one", "two", gold="tie")]
    given = votes([vote(row["pair_id"], "x", "tie") for row in rows])
    summary = summarise_votes(comparisons(rows), given, **SETTINGS)[0]
    against = aggregation_against_gold(comparisons(rows), summary.lazy())
    assert (against["majority_accuracy"], against["worker_accuracy"], against["p_value"]) == (0.75, 0.75, 1.0)


@pytest.fixture(scope="module")
def judges(shared_data):
    return judged_items(shared_data)


@pytest.mark.parametrize("model", MODELS)
def test_worker_quality_beats_majority_on_judges(model, judges):
    rows, given = judges
    summary, quality, _ = summarise_votes(rows, given, **SETTINGS | {"worker_model": model, "iterations": 50})
    against = aggregation_against_gold(rows, summary.lazy())
    assert against["n_gold"] == 885
    assert against["majority_accuracy"] == pytest.approx(0.7040, abs=5e-5)
    assert against["worker_accuracy"] > 0.79
    assert against["p_value"] < 1e-10
    assert quality.select(pl.corr("worker_accuracy", "gold_accuracy")).item() > 0.95
