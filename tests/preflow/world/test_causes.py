from dataclasses import replace

import polars as pl
import pytest

from preflow.reasons.schemas import CLASS_OF
from preflow.world.causes import COMBINED, KINDS, CauseRecipe, PlantedCauses, caused_feedback

RECIPE = CauseRecipe(
    n_pairs=500,
    shares={"caused": 0.6, "noise": 0.1, "inert": 0.1, "clear": 0.2},
    second=0.5,
    votes_per_pair=4,
    minded=8,
    indifferent=4,
    careless=[(20, 100)] * 2,
    taste=4.0,
    gap=4.0,
)


@pytest.fixture(scope="module")
def feedback():
    return caused_feedback(RECIPE, seed=1)


def diverges(row):
    return {"a", "b"} <= {vote["choice"] for vote in row["votes"]}


def of_kind(feedback, kind):
    return [row for row, found in zip(feedback.rows, feedback.truth["kind"], strict=True) if found == kind]


def test_every_kind_and_cause_occurs(feedback):
    assert PlantedCauses.is_valid(feedback.truth)
    assert len(feedback.rows) == len(feedback.truth) == RECIPE.n_pairs
    assert set(feedback.truth["kind"]) == set(KINDS)
    assert set(feedback.truth["causes"].explode().drop_nulls()) == set(CLASS_OF)
    several = feedback.truth.filter(pl.col("causes").list.len() > 1)["causes"].explode()
    assert set(several) == set(COMBINED)


def test_what_is_minded_diverges_and_what_is_clear_does_not(feedback):
    share = {kind: sum(map(diverges, rows)) / len(rows) for kind in KINDS if (rows := of_kind(feedback, kind))}
    assert share["caused"] > 0.75
    assert share["clear"] < 0.25


def test_without_taste_or_carelessness_a_mark_decides_nothing():
    world = caused_feedback(replace(RECIPE, taste=0.0, gap=0.0, careless=()), seed=1)
    share = {kind: sum(map(diverges, rows)) / len(rows) for kind in KINDS if (rows := of_kind(world, kind))}
    assert max(share.values()) - min(share.values()) < 0.2
    assert "careless_rating" not in set(world.truth["causes"].explode())


def test_inert_marks_are_judged_by_the_indifferent_alone(feedback):
    judges = {vote["annotator"] for row in of_kind(feedback, "inert") for vote in row["votes"]}
    assert judges == {f"indifferent_{i:02}" for i in range(RECIPE.indifferent)}


def test_careless_ratings_come_from_fast_votes_on_diverging_pairs(feedback):
    careless = feedback.truth["causes"].list.contains("careless_rating")
    rows = [row for row, found in zip(feedback.rows, careless, strict=True) if found]
    assert len(rows) > 10
    assert all(map(diverges, rows))
    fastest = [min(vote["seconds"] for vote in row["votes"]) for row in rows]
    assert sorted(fastest)[len(fastest) // 2] < 6


def test_the_same_seed_gives_the_same_bytes(feedback, tmp_path):
    for name, made in (("one", feedback), ("two", caused_feedback(RECIPE, seed=1))):
        made.save_to_disk(tmp_path / name)
    assert (tmp_path / "one/feedback.jsonl.gz").read_bytes() == (tmp_path / "two/feedback.jsonl.gz").read_bytes()
    assert caused_feedback(replace(RECIPE, n_pairs=20), seed=2).rows != feedback.rows[:20]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"shares": {"caused": 1.0}}, "must name caused, noise, inert, clear"),
        ({"shares": RECIPE.shares | {"clear": 0.9}}, "sum to 1"),
        ({"minded": 7}, "7 minded"),
        ({"indifferent": 3}, "3 indifferent"),
    ],
)
def test_an_impossible_recipe_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        caused_feedback(replace(RECIPE, **wrong), seed=0)
