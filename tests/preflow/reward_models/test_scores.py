"""Scores of several rewards in one table, worked by hand."""

from math import log

import numpy as np
import polars as pl
import pytest

from preflow.ingest.canonical import pair_id_of
from preflow.reward_models.schemas import RewardScores
from preflow.reward_models.scores import held_out_scores, out_of_fold, reward_scores, scored_pairs

PROMPT = [{"role": "user", "content": "Why?"}]
TEXTS = [("aa", "a"), ("b", "bbbb"), ("?", "c")]


class LogLength:
    """The logarithm of the length; "?" cannot be read."""

    def rewards(self, rows):
        return np.array([np.nan if text == "?" else log(len(text)) for text in rows["response"]])

    def in_both_orders(self, rows):
        return None


class ShownFirst:
    """Compares; a little for what is shown first, whatever it says."""

    def rewards(self, rows):
        return np.zeros(len(rows))

    def in_both_orders(self, rows):
        return np.tile([0.6, 0.4], (len(rows), 1))


@pytest.fixture
def comparisons():
    rows = [{"pair_id": pair_id_of(PROMPT, a, b), "prompt": PROMPT, "response_a": a, "response_b": b} for a, b in TEXTS]
    return pl.DataFrame(rows)


def test_by_hand(comparisons):
    scores = reward_scores(comparisons, {"length": LogLength(), "order": ShownFirst()})
    RewardScores.validate(scores)
    by = {(row["pair_id"], row["reward"]): row for row in scores.to_dicts()}
    first, second, unread = comparisons["pair_id"]
    assert len(by) == 5
    assert (unread, "length") not in by
    assert by[first, "length"]["probability_a"] == pytest.approx(2 / 3)
    assert by[second, "length"]["probability_a"] == pytest.approx(1 / 5)
    assert by[second, "length"]["disagreement"] == by[second, "order"]["disagreement"] == pytest.approx(0.15)
    assert by[unread, "order"]["disagreement"] is None
    assert by[first, "length"]["probability_a_first"] is None
    order = by[first, "order"]
    assert (order["probability_a_first"], order["probability_a_second"], order["probability_a"]) == (0.6, 0.4, 0.5)


def test_chosen_is_the_side_that_the_label_says(comparisons):
    scores = reward_scores(comparisons, {"length": LogLength()})
    pairs = comparisons.select("pair_id", chosen_is=pl.Series(["b", "a", "a"]))
    scored = scored_pairs(scores.lazy(), pairs.lazy(), reward="length").collect()
    found = {row["pair_id"]: row for row in scored.to_dicts()}
    first, second, _ = comparisons["pair_id"]
    assert (found[first]["reward_chosen"], found[first]["reward_rejected"]) == (0.0, log(2))
    assert (found[second]["reward_chosen"], found[second]["reward_rejected"]) == (0.0, log(4))
    assert found[first]["probability"] == pytest.approx(1 / 3)
    assert len(found) == 2
    again = out_of_fold(scored.lazy(), pairs.lazy(), reward="length")
    assert again.sort("pair_id").equals(scores.drop("disagreement").sort("pair_id"))


def test_scores_of_a_model_that_saw_the_pair_give_way_to_those_of_one_that_did_not(comparisons):
    scores = reward_scores(comparisons, {"length": LogLength(), "order": ShownFirst()})
    first = comparisons["pair_id"][0]
    other = scores.filter(pl.col("pair_id") == first, pl.col("reward") == "length").with_columns(
        reward_a=5.0, reward_b=5.0, probability_a=0.5
    )
    merged = held_out_scores(scores, other)
    RewardScores.validate(merged)
    row = merged.row(by_predicate=(pl.col("pair_id") == first) & (pl.col("reward") == "length"), named=True)
    assert (row["reward_a"], row["probability_a"], row["disagreement"]) == (5.0, 0.5, 0.0)
    assert merged.height == scores.height
    assert merged.filter(pl.col("pair_id") != first).equals(scores.filter(pl.col("pair_id") != first))


def test_nothing_scored_is_an_empty_table(comparisons):
    assert reward_scores(comparisons[:0], {"length": LogLength()}).equals(RewardScores.create_empty())
