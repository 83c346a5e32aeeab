import math

import polars as pl
import pytest

from preflow.treatments.difficulty import difficulty_scores, halves, seed_agreement
from preflow.treatments.schemas import DifficultyScores
from preflow.world.graded import Training, draw_graded, held_out_losses

IDS = [f"{i:032x}" for i in range(11)]
MODEL, OTHER = "a" * 32, "b" * 32
HOW = Training(width=16, beta=1.0, lr=3e-3, epochs=1, batch_size=8)
LN2 = math.log(2)


def losses(values):
    """values: pair -> seed -> losses of its checkpoints."""
    rows = [
        {"pair_id": IDS[pair], "seed": seed, "checkpoint": at, "loss": loss}
        for pair, seeds in values.items()
        for seed, checkpoints in seeds.items()
        for at, loss in enumerate(checkpoints, 1)
    ]
    return pl.DataFrame(rows)


def scores(values, margin=0.0):
    return difficulty_scores(losses(values), scored_by=MODEL, learned_margin=margin)


TWO = {0: {7: [0.6, 0.4], 8: [0.8, 0.2]}, 1: {7: [0.9, 1.0], 8: [1.1, 1.2]}}


@pytest.mark.claim("sdpo-1")
def test_each_pair_is_scored_once_a_seed_by_a_model_that_never_saw_it(record_claim):
    seeds = (41, 42, 43)
    held_out = dict.fromkeys(IDS, 0)
    for seed in seeds:
        first, second = halves(IDS, seed=seed)
        assert set(first) | set(second) == set(IDS)
        assert not set(first) & set(second)
        assert len(second) - len(first) == 1
        for scored, trained in ((first, second), (second, first)):
            assert not set(scored) & set(trained)
            for pair_id in scored:
                held_out[pair_id] += 1
    assert set(held_out.values()) == {len(seeds)}
    record_claim(f"{len(IDS)} pairs, each held out once in each of {len(seeds)} seeds; halves of 5 and 6", seeds=3)


def test_halves_depend_on_the_set_and_the_seed_alone():
    assert halves(IDS, seed=1) == halves(list(reversed(IDS)), seed=1)
    assert halves(IDS, seed=1) != halves(IDS, seed=2)


@pytest.mark.parametrize("ids", [[], IDS[:1], [IDS[0], IDS[0], IDS[1]]])
def test_halves_of_too_few_or_repeated_pairs_are_refused(ids):
    with pytest.raises(ValueError, match="two or more distinct pairs"):
        halves(ids, seed=0)


@pytest.mark.claim("sdpo-2")
def test_mean_over_seeds_and_checkpoints_in_any_order(record_claim):
    table = losses(TWO)
    made = difficulty_scores(table, scored_by=MODEL, learned_margin=0.0)
    assert made["difficulty"].to_list() == pytest.approx([0.5, 1.05])
    for shuffle in range(5):
        again = table.sample(fraction=1, shuffle=True, seed=shuffle)
        assert difficulty_scores(again, scored_by=MODEL, learned_margin=0.0).equals(made)
    for absent in range(len(table)):
        with pytest.raises(ValueError, match="1 pairs lack a loss"):
            difficulty_scores(
                table.with_row_index().filter(pl.col("index") != absent), scored_by=MODEL, learned_margin=0.0
            )
    record_claim(f"mean of {len(table) // 2} losses, the same bytes in any order; each missing one raises")


def test_spread_suspicion_and_learned_checkpoint_by_hand():
    made = scores(TWO)
    # Seed means 0.5 and 0.5; 0.95 and 1.15.
    assert made["spread"].to_list() == pytest.approx([0.0, 0.2 / math.sqrt(2)])
    # P(wrong) = 1 - exp(-loss), mean over checkpoints, the least over seeds.
    first = min((2 - math.exp(-0.6) - math.exp(-0.4)) / 2, (2 - math.exp(-0.8) - math.exp(-0.2)) / 2)
    assert made["flip_suspicion"][0] == pytest.approx(first)
    assert made["flip_suspicion"][1] == pytest.approx((2 - math.exp(-0.9) - math.exp(-1.0)) / 2)
    # Mean losses 0.7 > ln 2, then 0.3; never below ln 2.
    assert made["learned_at"].to_list() == [2, None]
    assert DifficultyScores.is_valid(made)


def test_learned_means_from_there_on():
    values = {0: {1: [0.1, 0.9, 0.2, 0.1]}, 1: {1: [0.1, 0.1, 0.1, 0.1]}, 2: {1: [0.1, 0.1, 0.1, 0.9]}}
    assert scores(values)["learned_at"].to_list() == [3, 1, None]
    assert scores(values, margin=2.2)["learned_at"].to_list() == [4, 1, None]  # loss below 0.105


def test_one_seed_has_no_spread():
    assert scores({0: {1: [0.5]}, 1: {1: [0.6]}})["spread"].to_list() == [None, None]


def test_no_losses_are_refused():
    with pytest.raises(ValueError, match="there is no loss"):
        difficulty_scores(losses(TWO).clear(), scored_by=MODEL, learned_margin=0.0)


@pytest.mark.claim("sdpo-12")
@pytest.mark.parametrize(("beta", "lr"), [(1e-6, 3e-3), (1.0, 1e-9)])
def test_untrained_models_rank_nothing(record_claim, beta, lr):
    world = draw_graded(40, flip_rate=0.0, taste_strength=0.0, world=0, seed=0)
    asleep = Training(width=16, beta=beta, lr=lr, epochs=1, batch_size=8)
    table = held_out_losses(world, asleep, seeds=(0, 1), checkpoints=2)
    worst = (table["loss"] - LN2).abs().max()
    assert worst < 1e-3
    with pytest.raises(ValueError, match=r"all 40 difficulties are ln 2 within 0\.001: the models did not learn"):
        difficulty_scores(table, scored_by=MODEL, learned_margin=0.0)
    record_claim(f"beta {beta:g}, learning rate {lr:g}: every loss within {worst:.0e} of ln 2; refused")


def test_more_checkpoints_than_steps_are_refused():
    world = draw_graded(10, flip_rate=0.0, taste_strength=0.0, world=0, seed=0)
    with pytest.raises(ValueError, match="1 steps cannot hold 5 checkpoints"):
        held_out_losses(world, HOW, seeds=(0,), checkpoints=5)


def test_one_pair_with_signal_is_enough_to_rank():
    assert len(scores({0: {1: [LN2]}, 1: {1: [LN2 + 0.002]}})) == 2


def test_world_scores_every_pair_out_of_fold():
    world = draw_graded(41, flip_rate=0.2, taste_strength=0.0, world=0, seed=3)
    table = held_out_losses(world, HOW, seeds=(0, 1), checkpoints=2)
    assert len(table) == 41 * 2 * 2
    assert held_out_losses(world, HOW, seeds=(1, 0), checkpoints=2).equals(table)
    assert table.filter(pl.col("seed") == 0)["loss"].n_unique() > 41


def test_agreement_of_seeds_by_hand():
    values = {pair: {0: [loss], 1: [2 * loss], 2: [1 - loss]} for pair, loss in enumerate([0.1, 0.3, 0.2])}
    assert seed_agreement(losses(values)) == pytest.approx((1 - 1 - 1) / 3)
    with pytest.raises(ValueError, match="at least two seeds"):
        seed_agreement(losses({0: {1: [0.5]}, 1: {1: [0.6]}}))
