import numpy as np
import pytest
import torch

from preflow.fit import fit, mlp, shuffled_batches


def weights(model):
    return torch.cat([part.detach().flatten() for part in model.parameters()])


def test_a_line_is_recovered():
    x = torch.linspace(-1, 1, 64)[:, None]
    line = mlp(1, 1, seed=0)
    fit(
        line,
        lambda rows: ((line(x[rows]) - 3 * x[rows] - 2) ** 2)[:, 0],
        shuffled_batches(64, batch_size=16, epochs=200, seed=0),
        lr=0.05,
    )
    assert weights(line).tolist() == pytest.approx([3, 2], abs=0.01)


def test_an_epoch_visits_every_row_once_and_in_a_new_order():
    batches = list(shuffled_batches(10, batch_size=4, epochs=2, seed=0))
    assert [len(batch) for batch in batches] == [4, 4, 2] * 2
    first, second = torch.cat(batches[:3]).tolist(), torch.cat(batches[3:]).tolist()
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_the_seed_alone_makes_the_network():
    torch.manual_seed(5)
    one, state = mlp(3, 4, 2, seed=1), torch.get_rng_state()
    torch.manual_seed(5)
    assert torch.equal(state, torch.get_rng_state())  # the global generator was left alone
    assert torch.equal(weights(one), weights(mlp(3, 4, 2, seed=1)))
    assert not torch.equal(weights(one), weights(mlp(3, 4, 2, seed=2)))


def test_steps_are_counted_from_one():
    model, seen = mlp(1, 1, seed=0), []
    fit(
        model, lambda rows: model(torch.ones(len(rows), 1))[:, 0], [torch.arange(2)] * 3, lr=0.1, after_step=seen.append
    )
    assert seen == [1, 2, 3]


def test_a_loss_that_is_not_finite_stops_the_training():
    model = mlp(1, 1, seed=0)
    with pytest.raises(FloatingPointError, match="at step 1"):
        fit(model, lambda rows: model(torch.full((2, 1), np.inf))[:, 0], [torch.arange(2)], lr=0.1)
