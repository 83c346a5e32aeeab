"""Rewards set by hand, so that what the evaluation must find is known."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from preflow.divergence.evaluation import NAMES, chosen_weight, evaluation, fitted_rewards, why_not
from preflow.divergence.models import Recipe, VotedPairs
from preflow.divergence.rewards import BradleyTerry, MeanVariance
from preflow.divergence.voted import Voted
from preflow.ingest.canonical import digest
from tests.preflow.divergence.conftest import drawn_taste, voted

KEPT, BASELINE = NAMES
SEEDS = range(3)
FIELDS = ("a", "b", "counts")
HOW = {"rounds": 2000, "seed": 0}
FLOOR = 0.05
A, B = [0, 0, 0, 0, 2, 0, 0], [2, 0, 0, 0, 0, 0, 0]
SPLIT, TIED = [1, 0, 0, 0, 1, 0, 0], [0, 0, 2, 0, 0, 0, 0]


def rewards():
    """Of the inputs (first, second, spread): the kept reward sees first and spread, the baseline second."""
    kept = MeanVariance(3, widths=(), seed=0, inputs={}, rho=0.0, sigma_floor=FLOOR)
    baseline = BradleyTerry(3, widths=(), seed=0, inputs={})
    with torch.no_grad():
        kept.net[0].weight.copy_(torch.tensor([[1.0, 0, 0], [0, 0, 1]]))
        baseline.net[0].weight.copy_(torch.tensor([[0, 1.0, 0]]))
        kept.net[0].bias.zero_()
    return {KEPT: kept, BASELINE: baseline}


def made(a, counts, *, split="test"):
    """Comparisons of responses with inputs `a` with one of zeros."""
    ids = [f"{row:032x}" for row in range(len(counts))]
    columns = {"pair_id": ids, "split": split, "prompt_group": [digest(name) for name in ids]}
    pairs = VotedPairs(*(torch.tensor(np.array(each), dtype=torch.float32) for each in (a, np.zeros_like(a), counts)))
    diverging = (pairs.counts[:, :2].sum(1) > 0) & (pairs.counts[:, 3:5].sum(1) > 0)
    return Voted(pl.DataFrame(columns).with_columns(diverging=pl.Series(diverging.numpy(), dtype=pl.Boolean)), pairs)


def planted(seed, n=120):
    """Both gaps are smaller where people differ, each with chance of its own; the spread is larger there."""
    rng = np.random.default_rng(seed)
    diverging = np.arange(n) < n // 2
    gaps = np.abs(rng.normal(size=(n, 2))) + 0.5 * ~diverging[:, None]
    sides = np.where(rng.random((n, 1)) < 0.5, 1, -1)
    spread = np.where(diverging, 2.0, -2.0) + rng.normal(size=n)
    counts = np.where(diverging[:, None], SPLIT, np.where(sides > 0, A, B))
    return made(np.c_[gaps * sides, spread], counts)


def differences(weight):
    found = [evaluation(rewards(), {KEPT: weight, BASELINE: 0.0}, planted(seed), **HOW) for seed in SEEDS]
    return [one["auroc_difference"] for one in found], found


def test_equal_rewards_do_not_differ_and_a_spread_that_knows_does():
    alike, found = differences(0.0)
    assert sum(one["low"] <= 0 <= one["high"] for one in alike) == len(SEEDS)
    assert all(0.5 < one["auroc"][name] < 0.85 for one in found for name in NAMES)
    better, found = differences(8.0)
    assert all(one["low"] > 0 for one in better)
    assert all(one["auroc"][KEPT] > 0.9 for one in found)
    for one in found:
        difference = one["auroc_difference"]
        assert difference["low"] < difference["estimate"] < difference["high"]
        assert difference["estimate"] == pytest.approx(one["auroc"][KEPT] - one["auroc"][BASELINE])


def test_accuracy_and_counts_by_hand():
    first = [1.0, 1, -1, 1, 0, 2, -2]
    second = [1.0, -1, -1, -1, 1, 0.5, 0.5]
    voted = made(np.c_[first, second, np.zeros(7)], [A, A, B, B, A, SPLIT, SPLIT])
    found = evaluation(rewards(), {KEPT: 0.0, BASELINE: 0.0}, voted, **HOW)
    assert (found["comparisons"], found["diverging"], found["lambda"]) == (7, 2, 0.0)
    assert found["accuracy"][KEPT]["estimate"] == pytest.approx(3.5 / 5)  # no gap is half right
    assert found["accuracy"][BASELINE]["estimate"] == pytest.approx(4 / 5)
    assert found["accuracy_difference"]["estimate"] == pytest.approx(-0.1)
    assert found["accuracy_p"] == 1.0  # one pair each way and a half
    assert found["auroc"] == {KEPT: 0.0, BASELINE: 1.0}


def test_the_same_numbers_twice():
    once, again = (evaluation(rewards(), {KEPT: 1.0, BASELINE: 0.0}, planted(3), **HOW) for _ in range(2))
    assert once == again


def test_lambda_is_chosen_on_the_validation_split_alone():
    known, unknown = planted(0), planted(1)
    parts = [("validation", known, known.table["diverging"]), ("test", unknown, ~unknown.table["diverging"])]
    table = pl.concat([one.table.with_columns(split=pl.lit(name), diverging=truth) for name, one, truth in parts])
    pairs = VotedPairs(*(torch.cat([getattr(each.pairs, field) for _, each, _ in parts]) for field in FIELDS))
    voted = Voted(table, pairs)
    assert chosen_weight(rewards()[KEPT], voted, grid=[0.0, 8.0]) == 8.0
    assert chosen_weight(rewards()[KEPT], replace(voted, table=turned(table)), grid=[0.0, 8.0]) == 0.0
    assert chosen_weight(rewards()[BASELINE], voted, grid=[8.0, 2.0, 0.5]) == 0.5, "it has no spread: all alike"


def turned(table):
    """The other split is the validation split."""
    return table.with_columns(split=pl.col("split").replace({"validation": "test", "test": "validation"}))


def test_fitting_does_not_look_at_the_test_split():
    recipe = Recipe(widths=(), l2=0.0, lr=0.01, epochs=2, batch_size=128, rho=0.0, sigma_floor=FLOOR, seed=0)
    drawn = voted(drawn_taste())
    assert why_not(drawn) is None
    test = torch.from_numpy((drawn.table["split"] == "test").to_numpy())
    counts = drawn.pairs.counts.clone()
    counts[test] = counts[test].flip(1)
    other = replace(drawn, pairs=replace(drawn.pairs, counts=counts))
    once, again = (fitted_rewards(each, recipe, l2_grid=[0.1, 1.0], encoder="none") for each in (drawn, other))
    assert tuple(once) == NAMES
    for name in NAMES:
        assert once[name].config["inputs"] == {"encoder": "none"}
        ours, theirs = once[name].state_dict(), again[name].state_dict()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def thin(counts):
    """The same comparisons, with these votes, in every split."""
    parts = [made(np.ones((len(counts), 3)), counts, split=split) for split in ("train", "validation", "test")]
    pairs = VotedPairs(*(torch.cat([getattr(part.pairs, field) for part in parts]) for field in FIELDS))
    return Voted(pl.concat([part.table for part in parts]), pairs)


def test_enough_of_each_kind_can_be_measured():
    found = thin([A] * 8 + [SPLIT] * 2)
    assert why_not(found) is None
    evaluation(rewards(), {KEPT: 0.0, BASELINE: 0.0}, found, **HOW)


@pytest.mark.parametrize(
    "counts",
    [[A] * 7 + [SPLIT] * 2, [A] * 9 + [SPLIT], [A] + [SPLIT] * 9, [A] * 10, [SPLIT] * 10, [TIED] * 8 + [SPLIT] * 2],
    ids=["nine", "one diverges", "one does not", "none diverges", "all diverge", "no majority"],
)
def test_too_few_of_a_kind_are_named(counts):
    assert f"of the train split {len(counts)} comparisons" in why_not(thin(counts))


def test_every_split_is_looked_at():
    found = thin([A] * 8 + [SPLIT] * 2)
    for split in ("train", "validation", "test"):
        rest = found.table["split"] != split
        cut = Voted(found.table.filter(rest), found.pairs[torch.from_numpy(np.flatnonzero(rest.to_numpy()))])
        assert f"of the {split} split 0 comparisons" in why_not(cut)
