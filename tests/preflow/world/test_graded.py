import math

import numpy as np
import pytest
import torch

from preflow.schemas import PreferencePairs
from preflow.world.graded import INPUTS, Energies, Training, draw_graded

HOW = Training(width=16, beta=1.0, lr=3e-3, epochs=2, batch_size=16)


def draw(n=400, **kwargs):
    return draw_graded(n, **({"flip_rate": 0.2, "taste_strength": 0.0, "world": 0, "seed": 1} | kwargs))


def test_rows_and_inputs_belong_together():
    world = draw()
    assert PreferencePairs.is_valid(world.pairs)
    assert world.inputs.shape == (400, 2, INPUTS)
    assert np.array_equal((world.pairs["margin"] < 0).to_numpy(), world.flipped)
    assert 0.1 < world.flipped.mean() < 0.3
    ids = world.pairs["pair_id"].to_list()
    assert world.rows([ids[5], ids[0]]).tolist() == [5, 0]


def test_a_flip_exchanges_the_responses_and_nothing_else():
    clean, noisy = draw(flip_rate=0.0), draw(flip_rate=1.0)
    assert torch.equal(clean.inputs, noisy.inputs.flip(1))
    assert clean.pairs["pair_id"].equals(noisy.pairs["pair_id"])


def test_every_loss_is_ln_2_before_training():
    world = draw()
    losses = Energies(world, HOW, seed=0).losses(torch.arange(400))
    assert losses.tolist() == pytest.approx([math.log(2)] * 400)


def test_the_easy_end_is_learned_and_the_hard_end_is_not():
    world, test = draw(4000, flip_rate=0.0), draw(4000, flip_rate=0.0, seed=2)
    model = Energies(world, HOW, seed=0)
    model.train(torch.arange(4000), shuffle=True)
    correct = model.correct(test)
    assert correct[test.dial < 0.2].mean() > 0.9
    assert correct[test.dial > 0.9].mean() < 0.6


def test_rows_in_order_are_trained_on_in_order():
    world = draw(64)
    orders = [torch.arange(64), torch.arange(64), torch.arange(64).flip(0)]
    trained = []
    for rows in orders:
        model = Energies(world, HOW, seed=0)
        model.train(rows, shuffle=False)
        trained.append(torch.cat([part.detach().flatten() for part in model.model.parameters()]))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])
