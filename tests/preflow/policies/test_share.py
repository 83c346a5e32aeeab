from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from preflow.evaluation import bootstrap_interval
from preflow.policies.share import select_on_validation, share_curve
from preflow.policies.training import examples_of, log_ratios, train_on
from preflow.treatments.schemas import DifficultyScores, TreatedPairs, training_rows
from preflow.treatments.selection import select_easiest
from tests.preflow.policies.conftest import RECIPE, of, preferences, treated

SPLITS = ("train",) * 6 + ("validation",) * 3 + ("test",)
FLIPPED = frozenset(i for i in range(100) if i % 10 in (0, 2, 3, 5))  # of every six train pairs four
SETTINGS = {"curriculum": False, "seeds": [1], "rounds": 2000}


def ranked_by_truth(rows, *, right_is_easy):
    """Difficulty as it should be, or the other way round."""
    right = (pl.col("chosen").str.len_chars() > pl.col("rejected").str.len_chars()) == right_is_easy
    return DifficultyScores.cast(
        rows.select(
            "pair_id",
            scored_by=pl.lit("a" * 32),
            difficulty=pl.when(right).then(0.3).otherwise(0.9),
            spread=0.0,
            flip_suspicion=0.1,
            learned_at=1,
        )
    )


@pytest.fixture(scope="module")
def world():
    """60 train pairs, two thirds of them labelled the wrong way round, and 30 right validation pairs."""
    pairs = treated(preferences(100, splits=SPLITS, flipped=FLIPPED))
    return of(pairs, "train"), of(pairs, "validation")


def test_the_world_is_as_it_is_described(world):
    train, validation = world
    right = [(rows["chosen"].str.len_chars() > rows["rejected"].str.len_chars()).sum() for rows in world]
    assert (len(train), len(validation), right) == (60, 30, [20, 30])


def test_the_share_that_is_right_is_picked_and_a_useless_ranking_changes_the_pick(study, world):
    train, validation = world
    picked = {}
    for right_is_easy in (True, False):
        ranking = ranked_by_truth(train, right_is_easy=right_is_easy)
        picked[right_is_easy] = select_on_validation(study, train, ranking, validation, shares=[1.0, 0.3], **SETTINGS)
    rows, chosen = picked[True]
    accuracies = {point["share"]: point["accuracy"] for point in chosen["curve"]}
    assert chosen["share"] == 0.3
    assert accuracies[0.3] > 0.9
    assert accuracies[1.0] < 0.5, "two wrong labels in three"
    assert rows.equals(select_easiest(train, ranked_by_truth(train, right_is_easy=True), share=0.3, curriculum=False))
    assert (rows.filter("kept")["chosen"].str.len_chars() == 3).all()
    accuracies = {point["share"]: point["accuracy"] for point in picked[False][1]["curve"]}
    assert accuracies[0.3] <= accuracies[1.0], "wrong pairs alone teach nothing right"
    assert picked[False][1]["share"] == 1.0


def test_an_accuracy_is_the_mean_over_seeds_of_pairs_that_come_out_right(study, world):
    train, validation = world
    ranking = ranked_by_truth(train, right_is_easy=True)
    settings = SETTINGS | {"seeds": [3, 4]}
    found = share_curve(study, train, ranking, validation, shares=[0.5], **settings)
    held = examples_of(study, validation)
    kept = training_rows(select_easiest(train, ranking, share=0.5, curriculum=False))
    assert len(kept) == 30
    models = [train_on(study, kept, seed=seed).model for seed in (3, 4)]
    ratios = [log_ratios(model, held, max_batch_tokens=RECIPE.max_batch_tokens) for model in models]
    right = np.array([[chosen > rejected for chosen, rejected in found] for found in ratios])
    assert found["curve"][0]["accuracy"] == pytest.approx(right.mean())
    interval = bootstrap_interval(right.mean(0), validation["prompt_group"].to_list(), rounds=2000, seed=0)
    assert found["curve"] == [{"share": 0.5, "accuracy": interval.estimate, "low": interval.low, "high": interval.high}]


def test_a_curriculum_is_what_is_measured_and_what_is_selected(study, world, monkeypatch):
    train, validation = world
    seen = []

    def watch(study, rows, *, seed):
        seen.append(rows)
        return train_on(study, rows, seed=seed)

    monkeypatch.setattr("preflow.policies.share.train_on", watch)
    ranking = ranked_by_truth(train, right_is_easy=True)
    settings = SETTINGS | {"curriculum": True}
    rows, _ = select_on_validation(study, train, ranking, validation, shares=[0.5], **settings)
    assert training_rows(rows).equals(seen[0])
    assert seen[0]["order"].to_list() == list(range(30))
    difficulty = seen[0].join(ranking, on="pair_id", maintain_order="left")["difficulty"]
    assert all(one <= other for one, other in pairwise(difficulty))
    assert difficulty.n_unique() == 2


def test_without_pairs_nothing_is_selected(study, world):
    train, validation = world
    empty = DifficultyScores.create_empty()
    rows, chosen = select_on_validation(study, train.clear(), empty, validation.clear(), shares=[0.5], **SETTINGS)
    assert rows.equals(TreatedPairs.create_empty())
    assert chosen == {"share": None, "curve": []}
