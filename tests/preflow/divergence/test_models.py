from dataclasses import replace
from math import log

import pytest
import torch

from preflow.divergence.models import MODELS, Recipe, VotedPairs, fit_best, fit_model, validation_loss
from preflow.divergence.rewards import BradleyTerry
from tests.preflow.divergence.conftest import drawn_taste, voted

RECIPE = Recipe(widths=(), l2=0.0, lr=0.01, epochs=4, batch_size=64, rho=0.0, sigma_floor=0.05, seed=0)
FAR_TOO_MUCH = 1000.0


@pytest.fixture(scope="module")
def parts():
    found = voted(drawn_taste())
    return found.of("train").pairs, found.of("validation").pairs


def same(one, other):
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_l2_with_the_least_validation_loss_is_kept(parts, name):
    mild, strong = (fit_model(name, *parts, replace(RECIPE, l2=l2), inputs={}) for l2 in (0.01, FAR_TOO_MUCH))
    assert not same(mild, strong)
    assert validation_loss(name, mild, parts[1]) < validation_loss(name, strong, parts[1])
    for grid in ([0.01, FAR_TOO_MUCH], [FAR_TOO_MUCH, 0.01]):
        assert same(fit_best(name, *parts, RECIPE, l2_grid=grid, inputs={}), mild)


def test_the_l2_of_the_recipe_has_no_say(parts):
    found = [
        fit_best("bt_all", *parts, replace(RECIPE, l2=l2), l2_grid=[0.01], inputs={}) for l2 in (0.0, FAR_TOO_MUCH)
    ]
    assert same(*found)


def test_a_validation_loss_by_hand():
    reward = BradleyTerry(1, widths=(), seed=0, inputs={})
    with torch.no_grad():
        reward.net[0].weight.fill_(log(3))
    counts = torch.zeros(3, 7)
    counts[0, 4] = 2  # both for A, of which the reward is .75 sure
    counts[1, [1, 3]] = 1  # one each
    counts[2, 0] = 1  # for B, of which it is .75 sure
    pairs = VotedPairs(torch.tensor([[1.0], [1.0], [0.0]]), torch.tensor([[0.0], [0.0], [1.0]]), counts)
    sure = -log(0.75)
    assert validation_loss("bt_majority", reward, pairs) == pytest.approx(sure)  # the second has no majority
    assert validation_loss("bt_all", reward, pairs) == pytest.approx((2 * sure + (sure - log(0.25)) / 2) / 3)


def test_an_unknown_model_and_no_pairs_are_refused(parts):
    with pytest.raises(ValueError, match="model 'oracle' is unknown; known are"):
        fit_model("oracle", *parts, RECIPE, inputs={})
    with pytest.raises(ValueError, match="no pair to train bt_all on"):
        fit_model("bt_all", parts[0][torch.arange(0)], None, RECIPE, inputs={})
