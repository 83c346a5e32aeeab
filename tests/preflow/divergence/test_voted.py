import numpy as np
import polars as pl
import pytest

from preflow.divergence.classes import agreement_classes
from preflow.divergence.voted import voted_comparisons
from preflow.reward.features import FEATURES
from preflow.tokens import text_id
from tests.preflow.feedback import comparison, comparisons, vote, votes

ROWS = [comparison(f"Question {n}?", f"Answer {n}.", "Another answer!") for n in range(4)]
IDS = [row["pair_id"] for row in ROWS]
SPLITS = dict(zip(IDS, ("train", "train", "validation", "test"), strict=True))
CAST = [
    *(vote(IDS[0], name, choice, strength=2) for name, choice in (("x", "a"), ("y", "a"), ("z", "b"))),
    *(vote(IDS[1], name, "tie") for name in ("x", "y")),
    vote(IDS[2], "x", "a"),
    *(vote(IDS[3], name, "b", strength=1) for name in ("x", "y")),
]


def embeddings(rows):
    texts = sorted({row[f"response_{side}"] for row in rows for side in "ab"})
    vectors = np.random.default_rng(0).normal(size=(len(texts), 3)).astype(np.float32)
    return pl.DataFrame({"text_id": [text_id(text) for text in texts], "embedding": vectors.tolist()})


def found(cast, rows=ROWS, embedded=None):
    frame, given = comparisons(rows), votes(cast)
    classes = agreement_classes(frame, given, careless=[]).lazy()
    splits = pl.LazyFrame({"pair_id": list(SPLITS), "split": list(SPLITS.values())})
    return voted_comparisons(frame, given, classes, splits, embeddings(ROWS) if embedded is None else embedded)


def test_comparisons_with_two_annotators_in_order_of_their_ids():
    voted = found(CAST)
    assert voted.table.columns == ["pair_id", "split", "prompt_group", "diverging"]
    assert voted.table["pair_id"].to_list() == sorted(set(IDS) - {IDS[2]}), "one vote is not enough"
    by_id = {row["pair_id"]: (row["split"], row["diverging"]) for row in voted.table.to_dicts()}
    assert by_id == {IDS[0]: ("train", True), IDS[1]: ("train", False), IDS[3]: ("test", False)}
    counts = dict(zip(voted.table["pair_id"], voted.pairs.counts.tolist(), strict=True))
    assert counts[IDS[0]] == [1, 0, 0, 0, 2, 0, 0]
    assert counts[IDS[1]] == [0, 0, 2, 0, 0, 0, 0]
    assert counts[IDS[3]] == [0, 2, 0, 0, 0, 0, 0]


def test_inputs_are_those_of_the_responses():
    voted, table = found(CAST), dict(embeddings(ROWS).iter_rows())
    texts = {row["pair_id"]: (row["response_a"], row["response_b"]) for row in ROWS}
    assert voted.pairs.a.shape == voted.pairs.b.shape == (3, 3 + len(FEATURES))
    for row, name in enumerate(voted.table["pair_id"]):
        for side, text in zip((voted.pairs.a, voted.pairs.b), texts[name], strict=True):
            assert side[row, :3].tolist() == table[text_id(text)]


def test_a_split_holds_its_rows_and_no_others():
    voted = found(CAST)
    train, test, validation = (voted.of(split) for split in ("train", "test", "validation"))
    assert set(train.table["pair_id"]) == {IDS[0], IDS[1]}
    assert test.table["pair_id"].to_list() == [IDS[3]]
    row = voted.table["pair_id"].to_list().index(IDS[3])
    assert test.pairs.a.tolist() == [voted.pairs.a[row].tolist()]
    assert len(validation.pairs) == len(validation.table) == 0


@pytest.mark.parametrize("cast", [[], [vote(name, "x", "a") for name in IDS]], ids=["no votes", "one vote each"])
def test_without_two_votes_there_is_nothing(cast):
    voted = found(cast)
    assert len(voted.table) == len(voted.pairs) == len(voted.of("train").table) == 0
    assert voted.pairs.a.shape == (0, 3 + len(FEATURES))
    assert voted.pairs.counts.shape == (0, 7)


def test_the_order_of_the_rows_does_not_matter():
    once, again = found(CAST), found(CAST[::-1], rows=ROWS[::-1])
    assert once.table.equals(again.table)
    assert all(getattr(once.pairs, name).equal(getattr(again.pairs, name)) for name in ("a", "b", "counts"))


def test_a_response_without_an_embedding_is_named():
    with pytest.raises(ValueError, match="1 texts have no embedding"):
        found(CAST, embedded=embeddings(ROWS).filter(pl.col("text_id") != text_id("Another answer!")))
