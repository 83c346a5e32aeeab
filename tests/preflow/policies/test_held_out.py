from math import log

import numpy as np
import polars as pl
import pytest
from scipy.stats import mannwhitneyu

from preflow.policies import held_out
from preflow.policies.held_out import held_out_losses, ranked
from preflow.policies.study import Study
from preflow.policies.training import examples_of, log_ratios, train_on
from preflow.treatments.difficulty import halves, seed_agreement
from preflow.treatments.schemas import DifficultyScores, HeldOutLosses, training_rows
from tests.preflow.policies.conftest import RECIPE, changed, of, preferences, treated, turned

CHECKPOINTS, SEEDS = 2, (1, 2)
SCORED = {"seeds": SEEDS, "checkpoints": CHECKPOINTS}


@pytest.fixture(scope="module")
def train(rows):
    return of(rows, "train")[:41]


@pytest.fixture(scope="module")
def scored(policy, train, tmp_path_factory):
    """A study that has scored the 41 pairs, and their losses."""
    study = Study(policy, RECIPE, tmp_path_factory.mktemp("scored"))
    return study, held_out_losses(study, train, **SCORED)


@pytest.fixture
def trained_on(monkeypatch):
    """(seed, pair ids) of each training from now on."""
    seen = []

    def watch(study, rows, *, seed, **settings):
        seen.append((seed, tuple(rows["pair_id"])))
        return train_on(study, rows, seed=seed, **settings)

    monkeypatch.setattr(held_out, "train_on", watch)
    return seen


@pytest.fixture
def scored_by(monkeypatch, trained_on):
    """(number of the training, examples) of each evaluation from now on."""
    seen = []

    def watch(model, examples, **settings):
        seen.append((len(trained_on) - 1, tuple(examples)))
        return log_ratios(model, examples, **settings)

    monkeypatch.setattr(held_out, "log_ratios", watch)
    return seen


@pytest.mark.claim("sdpo-1")
def test_no_pair_is_scored_by_a_policy_that_trained_on_it(study, scored, train, trained_on, scored_by, record_claim):
    one_seed = held_out_losses(study, train, seeds=SEEDS[1:], checkpoints=CHECKPOINTS)
    assert one_seed.equals(scored[1].filter(seed=SEEDS[1]))
    assert held_out_losses(study, train, **SCORED).equals(scored[1]), "a scoring that was stopped goes on"
    assert [seed for seed, _ in trained_on] == [2, 2, 1, 1]
    assert len(scored_by) == len(trained_on) * CHECKPOINTS

    id_of = dict(zip(examples_of(study, train), train["pair_id"], strict=True))
    models: dict[str, list[int]] = {pair_id: [] for pair_id in train["pair_id"]}
    for run, examples in scored_by:
        for example in examples:
            models[id_of[example]].append(run)
    overlap = sum(pair_id in trained_on[run][1] for pair_id, runs in models.items() for run in runs)
    assert overlap == 0
    assert {len(set(runs)) for runs in models.values()} == {len(SEEDS)}, "as many held-out policies as seeds"
    assert {len(runs) for runs in models.values()} == {len(SEEDS) * CHECKPOINTS}
    for seed in SEEDS:
        one, other = (set(ids) for of_seed, ids in trained_on if of_seed == seed)
        assert (one & other, one | other) == (set(), set(train["pair_id"]))
        assert abs(len(one) - len(other)) == 1
    record_claim(
        f"language-model runs: {overlap} of {len(models)} pairs scored by a policy that trained on them, "
        f"{len(SEEDS)} held-out policies a pair, halves of 20 and 21",
        holds=overlap == 0,
        seeds=len(SEEDS),
    )


def test_every_pair_has_a_loss_at_each_checkpoint_of_each_seed(scored, train):
    _, losses = scored
    HeldOutLosses.validate(losses)
    expected = {(pair_id, seed, at) for pair_id in train["pair_id"] for seed in SEEDS for at in (1, 2)}
    assert set(losses.select("pair_id", "seed", "checkpoint").iter_rows()) == expected
    assert len(losses) == len(expected)
    assert losses.equals(losses.sort("pair_id", "seed", "checkpoint"))


def test_a_loss_is_that_of_the_policy_trained_on_the_other_half(scored, study, train):
    _, losses = scored
    first, second = halves(train["pair_id"].to_list(), seed=1)
    rows = [train.filter(pl.col("pair_id").is_in(ids)).sort("pair_id") for ids in (first, second)]
    model = train_on(study, training_rows(rows[0]), seed=1).model
    ratios = log_ratios(model, examples_of(study, rows[1]), max_batch_tokens=RECIPE.max_batch_tokens)
    by_hand = [-log(1 / (1 + np.exp(-RECIPE.beta * (chosen - rejected)))) for chosen, rejected in ratios]
    last = losses.filter(pl.col("pair_id").is_in(second), seed=1, checkpoint=CHECKPOINTS)["loss"].to_list()
    assert last == pytest.approx(by_hand, rel=1e-5)


def test_a_rerun_trains_nothing_and_gives_the_same_bytes(scored, policy, train, trained_on):
    study, losses = scored
    fresh = Study(policy, RECIPE, study.folder)
    again = held_out_losses(fresh, train.sample(fraction=1, shuffle=True, seed=3), **SCORED)
    assert trained_on == []
    assert again.serialize() == losses.serialize()


def test_losses_of_another_recipe_or_label_are_not_reused(scored, train, trained_on):
    study, losses = scored
    settings = {"seeds": [1], "checkpoints": CHECKPOINTS}
    other_beta = held_out_losses(changed(study, beta=0.3), train, **settings)
    other_label = held_out_losses(study, turned(train), **settings)
    assert len(trained_on) == 4
    assert not other_beta.equals(losses.filter(seed=1))
    assert not other_label.equals(losses.filter(seed=1))


def test_flipped_pairs_are_the_hard_ones(study):
    flipped = frozenset(range(0, 60, 5))
    train = of(treated(preferences(60, splits=("train",) * 58 + ("validation", "test"), flipped=flipped)), "train")
    losses = held_out_losses(changed(study, epochs=5.0), train, seeds=[1, 2], checkpoints=1)
    scores, metrics = ranked(study, losses, checkpoints=1, learned_margin=0.0)
    turned_round = train.with_columns(flip=pl.col("chosen").str.len_chars() < pl.col("rejected").str.len_chars())
    by_flip = scores.join(turned_round.select("pair_id", "flip"), on="pair_id")
    hard, easy = (by_flip.filter(flip=flip)["difficulty"] for flip in (True, False))
    assert len(hard) == 12
    assert mannwhitneyu(hard, easy, alternative="greater").pvalue < 1e-6
    assert metrics["seed_agreement"] == seed_agreement(losses) > 0
    suspected = by_flip.filter(pl.col("flip_suspicion") > 0.5)["flip"]
    assert metrics["flip_suspected"] == len(suspected)
    assert suspected.sum() > len(hard) / 2
    assert suspected.mean() > 0.8


def test_a_ranking_names_the_study_that_made_it(scored):
    study, losses = scored
    scores, metrics = ranked(study, losses, checkpoints=CHECKPOINTS, learned_margin=0.0)
    DifficultyScores.validate(scores)
    assert scores["scored_by"].unique().to_list() == [metrics["scored_by"]]
    assert (metrics["pairs"], metrics["seeds"], metrics["checkpoints"]) == (41, 2, 2)
    other = ranked(changed(study, beta=0.3), losses, checkpoints=CHECKPOINTS, learned_margin=0.0)[1]
    assert other["scored_by"] != metrics["scored_by"]
    alone = ranked(study, losses.filter(seed=1), checkpoints=CHECKPOINTS, learned_margin=0.0)[1]
    assert alone["seed_agreement"] is None
    assert alone["scored_by"] != metrics["scored_by"]


def test_fewer_steps_than_checkpoints_are_refused_before_anything_is_trained(study, train, trained_on):
    with pytest.raises(ValueError, match="a run on half of the pairs has 2 steps, fewer than 3 checkpoints"):
        held_out_losses(study, train, seeds=[1], checkpoints=3)
    assert trained_on == []


def test_without_pairs_there_is_nothing_to_score(study, train):
    empty = held_out_losses(study, train.clear(), **SCORED)
    assert empty.equals(HeldOutLosses.create_empty())
    scores, metrics = ranked(study, empty, checkpoints=CHECKPOINTS, learned_margin=0.0)
    assert scores.equals(DifficultyScores.create_empty())
    assert metrics == {"pairs": 0}
    with pytest.raises(ValueError, match="halves need two or more distinct pairs; got 1"):
        held_out_losses(study, train[:1], **SCORED)


@pytest.mark.claim("sdpo-12")
def test_policies_that_learned_nothing_rank_nothing(study, train, record_claim):
    idle = changed(study, learning_rate=1e-9)
    losses = held_out_losses(idle, train, seeds=[1], checkpoints=CHECKPOINTS)
    furthest = (losses["loss"] - log(2)).abs().max()
    assert len(losses) == 82
    assert furthest < 1e-3
    with pytest.raises(ValueError, match="the models did not learn"):
        ranked(idle, losses, checkpoints=CHECKPOINTS, learned_margin=0.0)
    record_claim(f"language-model runs: {furthest:.1e} from ln 2 at most, and refused", holds=furthest < 1e-3, seeds=1)
