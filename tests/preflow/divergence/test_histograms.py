import numpy as np
import pytest

from preflow.divergence.histograms import ballots, counts, share_a, vote_histograms
from preflow.divergence.schemas import OUTCOMES
from tests.preflow.feedback import content_hash, vote, votes

PAIR = content_hash("pair")


def outcome(*given):
    """The ballot of one annotator who voted (choice, strength) as given."""
    table = ballots(votes([vote(PAIR, "ann", choice, strength=strength) for choice, strength in given]))
    return table["outcome"].to_list()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("a", 3)], "a_clear"),
        ([("a", 2)], "a_clear"),
        ([("b", 1)], "b_slight"),
        ([("b", None)], "b_unstated"),
        ([("tie", None)], "tie"),
        ([("a", 1), ("b", 1)], "tie"),  # asked in both orders, opposing themselves
        ([("a", 2), ("a", 1), ("b", 3)], "a_slight"),
        ([("a", None), ("a", 2)], "a_clear"),
        ([("a", 2), ("tie", None)], "tie"),
    ],
)
def test_an_annotator_counts_once(given, expected):
    assert outcome(*given) == [expected]


def test_histogram_and_share_worked_by_hand():
    given = [("x", "a", 2), ("y", "a", None), ("z", "b", 1), ("v", "tie", None)]
    histogram = vote_histograms(ballots(votes([vote(PAIR, who, c, strength=s) for who, c, s in given])))
    expected = {"b_slight": 1, "tie": 1, "a_clear": 1, "a_unstated": 1}
    assert histogram.to_dicts() == [{"pair_id": PAIR} | dict.fromkeys(OUTCOMES, 0) | expected]
    assert share_a(counts(histogram)) == np.array([2.5 / 4])


def test_the_same_bytes_whatever_the_order_of_the_votes():
    rows = [vote(content_hash(str(i % 5)), f"ann{i}", "ab"[i % 2], strength=1 + i % 3) for i in range(30)]
    one, other = (vote_histograms(ballots(votes(order))) for order in (rows, rows[::-1]))
    assert len(one) == 5
    assert one.equals(other)
