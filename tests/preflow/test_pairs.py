import polars as pl
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from preflow.audit.votes import summarise_votes
from preflow.pairs import Verdicts, identical_when_truncated, outcome_counts, preference_pairs, verdicts
from preflow.schemas import PreferencePairs
from tests.preflow.feedback import comparison, comparisons, vote, votes

NONE_TRUNCATED = pl.LazyFrame(schema={"pair_id": pl.String})
ROWS = {
    "voted": comparison("q0", "one", "two", gold="b", score_a=1.0, score_b=4.0, flags=["long"]),
    "tied": comparison("q1", "one", "two"),
    "split": comparison("q2", "one", "two", gold="a"),
    "gold": comparison("q3", "one", "two", gold="b"),
    "scored": comparison("q4", "one", "two", score_a=0.5, score_b=0.25),
    "even": comparison("q5", "one", "two", score_a=2.0, score_b=2.0),
    "silent": comparison("q6", "one", "two", score_a=2.0),
}
IDS = {name: row["pair_id"] for name, row in ROWS.items()}
NAMES = {pair_id: name for name, pair_id in IDS.items()}
CHOICES = {"voted": ["a", "a", "a", "b"], "tied": ["tie", "tie"], "split": ["a", "a", "b", "b", "b"]}


@pytest.fixture(scope="module")
def summary():
    given = [vote(IDS[name], str(i), choice) for name, chosen in CHOICES.items() for i, choice in enumerate(chosen)]
    settings = {"worker_model": "dawid_skene", "iterations": 50, "seed": 0}
    return summarise_votes(comparisons(list(ROWS.values())), votes(given), **settings)[0].lazy()


def decide(summary, label="majority", min_agreement=0.0):
    found = verdicts(comparisons(list(ROWS.values())), summary, label=label, min_agreement=min_agreement)
    Verdicts.validate(found)
    return {NAMES[row[0]]: row[1:] for row in found.iter_rows()}, found


def make(summary, contradictions=(), truncated=NONE_TRUNCATED, label="majority", min_agreement=0.0):
    rows = comparisons(list(ROWS.values()))
    splits = rows.select("pair_id", split=pl.lit("train"))
    raised = pl.LazyFrame(list(contradictions), schema=["pair_id", "other_pair_id", "kind"], orient="row")
    raised = raised.cast(pl.String)
    decided = verdicts(rows, summary, label=label, min_agreement=min_agreement).lazy()
    found = preference_pairs(rows, decided, summary, splits, raised, truncated)
    PreferencePairs.validate(found)
    return {NAMES[row["pair_id"]]: row for row in found.iter_rows(named=True)}


def test_votes_then_gold_then_scores_decide(summary):
    found, table = decide(summary)
    assert found == {
        "voted": ("pair", "a", "majority"),
        "tied": ("tie", "tie", "majority"),
        "split": ("pair", "b", "majority"),
        "gold": ("pair", "b", "gold"),
        "scored": ("pair", "a", "scores"),
        "even": ("tie", "tie", "scores"),
        "silent": ("undecided", None, None),
    }
    assert outcome_counts(table.lazy()) == {"pair": 4, "tie": 2, "undecided": 1}


def test_gold_can_be_put_above_the_votes(summary):
    found, _ = decide(summary, label="gold")
    assert found["voted"] == ("pair", "b", "gold")
    assert found["tied"] == ("tie", "tie", "majority")


def test_too_little_agreement_is_undecided(summary):
    found, _ = decide(summary, min_agreement=0.4)
    assert found["split"] == ("undecided", "b", "majority")
    assert found["voted"][0] == found["gold"][0] == "pair"


@pytest.mark.parametrize("label", ["majority", "worker_model", "gold"])
@pytest.mark.parametrize("min_agreement", [0.0, 0.4, 1.0])
def test_every_comparison_is_accounted_for(summary, label, min_agreement):
    counts = outcome_counts(decide(summary, label, min_agreement)[1].lazy())
    assert sum(counts.values()) == len(ROWS)
    assert counts["pair"] == len(make(summary, label=label, min_agreement=min_agreement))


def test_a_pair_row(summary):
    row = make(summary)["voted"]
    assert (row["chosen"], row["rejected"], row["chosen_is"], row["split"]) == ("one", "two", "a", "train")
    assert (row["n_votes"], row["vote_share"]) == (4, 0.75)
    assert (row["score_chosen"], row["score_rejected"], row["margin"]) == (1.0, 4.0, -3.0)
    assert row["flags"] == ["long", "scores_disagree"]
    assert 0 < row["agreement"] < 1


def test_gold_and_scores_weigh_one(summary):
    pairs = make(summary)
    assert [pairs[name]["vote_share"] for name in ("gold", "scored")] == [1.0, 1.0]
    assert [pairs[name]["agreement"] for name in ("gold", "scored")] == [1.0, 1.0]
    assert pairs["gold"]["chosen"] == "two"


def test_worker_model_weighs_by_its_own_belief(summary):
    belief = dict(summary.select("pair_id", "worker_share_a").collect().iter_rows())
    row = make(summary, label="worker_model")["voted"]
    share = belief[row["pair_id"]]
    assert row["vote_share"] == pytest.approx(share if row["chosen_is"] == "a" else 1 - share)


def test_doubts_become_flags(summary):
    raised = [(IDS["voted"], IDS["gold"], "mirrored"), (IDS["gold"], IDS["gold"], "own_vote")]
    truncated = pl.LazyFrame({"pair_id": [IDS["scored"]]})
    pairs = make(summary, raised, truncated)
    assert pairs["voted"]["flags"] == ["contradicted", "long", "scores_disagree"]
    assert pairs["gold"]["flags"] == ["contradicted", "own_vote_contradiction"]
    assert pairs["scored"]["flags"] == ["identical_after_truncation"]
    assert pairs["split"]["flags"] == []


@pytest.mark.parametrize(
    ("change", "message"), [({"label": "vibes"}, "vibes"), ({"min_agreement": 2.0}, "from 0 to 1")]
)
def test_settings_outside_their_range_are_refused(summary, change, message):
    with pytest.raises(ValueError, match=message):
        decide(summary, **change)


def test_identical_when_truncated():
    words = ["[UNK]", "user", ":", *"abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    rows = [
        comparison("p", "a b c d e f", "a b c d e g"),
        comparison("p", "a b c d e f x", "a b c d e f y"),
        comparison("p", "a", "b"),
        comparison("p q r s t u v w x", "a", "b"),
    ]
    found = identical_when_truncated(comparisons(rows), tokenizer=tokenizer, max_tokens=9)
    # "user", ":", "p" leave six tokens for the response; nine words of prompt leave none.
    assert set(found["pair_id"]) == {rows[1]["pair_id"], rows[3]["pair_id"]}
