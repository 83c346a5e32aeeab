import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.losses import concept_loss
from preflow.concepts.networks import Architecture
from preflow.concepts.posterior import (
    by_posterior,
    by_self_confidence,
    flip_rates,
    noisy_posterior,
    out_of_fold_logits,
    p_wrong,
    precision_at_planted,
    relabel_queue,
)
from preflow.concepts.recipe import Recipe, Setting
from preflow.world.concepts import class_world

RECIPE = Recipe(
    architecture=Architecture(encoder="mlp", widths=[32], embedding=0),
    mode="joint", epochs=15, batch_size=32, lr=1e-2, checkpoints=5, intervened=0.25,
)  # fmt: skip


def mixture(n, *, rate, seed):
    """True concepts with known P(true = 1), their noisy labels, and the exact P(label = 1)."""
    generator = torch.Generator().manual_seed(seed)
    clean = torch.sigmoid(4 * torch.randn(n, 2, generator=generator, dtype=torch.float64))
    truth = (torch.rand(n, 2, generator=generator) < clean).double()
    flips = torch.rand(n, 2, generator=generator) < rate
    return torch.where(flips, 1 - truth, truth), truth, rate + (1 - 2 * rate) * clean


def test_the_inverse_of_the_fixed_point_is_the_noisy_posterior():
    p, z0, beta = torch.tensor([0.1, 0.7, 0.95]), torch.tensor([1.0, 0.0, -2.0]), 0.6
    fixed = (torch.logit(p) + beta * z0) / (1 + beta)
    assert torch.allclose(noisy_posterior(fixed, beta=beta, prior=z0), p)
    assert torch.allclose(noisy_posterior(torch.logit(p), beta=0), p)


def test_p_wrong_by_hand():
    noisy = torch.tensor([[0.75, 0.75, 0.95, 0.05, 0.6]], dtype=torch.float64)
    labels = torch.tensor([[1.0, 0.0, 1.0, 1.0, math.nan]], dtype=torch.float64)
    found = p_wrong(noisy, labels, torch.full((5,), 0.1, dtype=torch.float64))[0]
    true = (0.75 - 0.1) / 0.8
    by_bayes = 0.1 * (1 - true) / (0.9 * true + 0.1 * (1 - true))
    other = 0.1 * true / (0.9 * (1 - true) + 0.1 * true)
    assert found[:4].tolist() == pytest.approx([by_bayes, other, 0, 1])
    assert found[4].isnan()


def test_p_wrong_is_calibrated_where_posterior_and_rate_are_known():
    labels, truth, noisy = mixture(40_000, rate=0.25, seed=0)
    wrong = p_wrong(noisy, labels, torch.tensor([0.25, 0.25]).double())
    edges = torch.tensor([0.0, 0.05, 0.3, 0.6, 0.9, 1.01])
    bins = [((wrong >= low) & (wrong < high)) for low, high in pairwise(edges)]
    assert min(int(cells.sum()) for cells in bins) > 300
    for cells in bins:
        share = (labels != truth)[cells].double().mean()
        assert share == pytest.approx(float(wrong[cells].mean()), abs=4 * 0.5 / int(cells.sum()) ** 0.5)


def test_the_posterior_gains_on_self_confidence_exactly_where_rates_differ():
    _, truth, _ = mixture(20_000, rate=0.0, seed=2)
    clean = mixture(20_000, rate=0.0, seed=2)[2]
    gains = {}
    for rates in ((0.2, 0.2), (0.05, 0.35)):
        rates = torch.tensor(rates, dtype=torch.float64)
        flips = torch.rand(truth.shape, generator=torch.Generator().manual_seed(3)) < rates
        labels, noisy = torch.where(flips, 1 - truth, truth), rates + (1 - 2 * rates) * clean
        orders = by_posterior(p_wrong(noisy, labels, rates), noisy, labels), by_self_confidence(noisy, labels)
        ours, theirs = (precision_at_planted(order, labels, truth) for order in orders)
        gains[float(rates[0])] = ours - theirs
    assert gains[0.2] == pytest.approx(0, abs=1e-3)
    assert gains[0.05] > 0.01


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_the_flip_rate_of_a_concept_is_found(rate):
    labels, truth, noisy = mixture(20_000, rate=rate, seed=1)
    planted = (labels != truth).double().mean(0)
    # Where even the truth is a coin's throw for some items, those look flipped too: the rate is no lower, and near.
    assert ((flip_rates(noisy, labels) - planted).abs() < 0.1).all()


def test_a_concept_of_one_value_has_no_flips_to_find():
    assert flip_rates(torch.full((5, 1), 0.9), torch.ones(5, 1)).tolist() == [0]


def test_the_queue_is_in_order_and_names_its_cells():
    labels = torch.tensor([[1.0, 0.0], [math.nan, 1.0]])
    noisy = torch.tensor([[0.2, 0.3], [0.5, 0.01]])
    wrong = p_wrong(noisy, labels, torch.tensor([0.3, 0.3]))
    order = by_posterior(wrong, noisy, labels)
    arrays = ConceptArrays(["x", "y"], torch.zeros(2, 1), labels, torch.zeros(2, dtype=torch.int64))
    table = relabel_queue(arrays, ["big", "old"], wrong, order)
    assert table.select("item_id", "concept", "value", "rank").rows() == [
        ("y", "old", True, 1),  # both it and the next are beyond the cut, P(wrong) 1
        ("x", "big", True, 2),
        ("x", "old", False, 3),
    ]
    assert table["p_wrong"].to_list()[:2] == [1, 1]
    assert table["p_wrong"].to_list()[2] == pytest.approx(0)
    assert by_self_confidence(noisy, labels).tolist() == [3, 0, 1]


def test_precision_counts_as_many_cells_as_are_wrong():
    labels, truth = torch.tensor([[1.0, 1.0, 0.0, 0.0]]), torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    assert precision_at_planted(np.array([2, 1, 0, 3]), labels, truth) == 0.5
    with pytest.raises(ValueError, match="no label is wrong"):
        precision_at_planted(np.arange(4), truth, truth)


def test_flips_are_found_out_of_fold_beside_confident_learning():
    world = class_world((300, 100, 10), classes=8, concepts=6, inputs=12, scale=1.5, seed=0)
    splits = world.noisy(rate=0.2, seed=0)
    setting, labels = Setting(concept_loss("cpo_joint", beta=0.1, draws=1), 8.0), splits.train.concepts
    logits = out_of_fold_logits(splits.train, splits.validation, setting, RECIPE, classes=8, folds=2, seed=0)
    noisy = noisy_posterior(logits, beta=0.1)
    rates = flip_rates(noisy, labels)
    orders = by_posterior(p_wrong(noisy, labels, rates), noisy, labels), by_self_confidence(noisy, labels)
    ours, theirs = (precision_at_planted(order, labels, splits.true_train) for order in orders)
    planted = (labels != splits.true_train).float().mean(0)
    assert ours > 0.75
    assert ours > theirs - 0.02
    assert (rates - planted).abs().mean() < 0.05


@pytest.mark.parametrize("folds", [1, 12])
def test_folds_that_cannot_be_are_refused(folds):
    world = class_world((10, 10, 10), classes=2, concepts=2, inputs=2, scale=1.0, seed=0)
    with pytest.raises(ValueError, match=f"{folds} folds of 10 items"):
        out_of_fold_logits(
            world.train, world.validation, Setting(concept_loss("bce"), 1.0), RECIPE, classes=2, folds=folds, seed=0
        )


def test_rates_of_a_half_are_refused():
    with pytest.raises(ValueError, match="labels say nothing"):
        p_wrong(torch.zeros(1, 1), torch.zeros(1, 1), torch.tensor([0.5]))
