"""The order of training: each row once a pass, a curriculum as it stands, batches of similar length where asked."""

import numpy as np
import pytest

from preflow.lm.order import steps_of, training_order

LENGTHS = np.random.default_rng(0).integers(5, 100, 403).tolist()


@pytest.mark.parametrize("order", ["shuffled", "by_length", "given"])
def test_every_row_is_seen_once_before_any_is_seen_again(order):
    rows = training_order(LENGTHS, order=order, steps=200, batch_size=8, seed=1)
    assert len(rows) == 1600
    for start in range(0, 1209, 403):
        assert sorted(rows[start : start + 403]) == list(range(403))


def test_given_order_is_kept():
    assert training_order([1, 1, 1], order="given", steps=2, batch_size=2, seed=0).tolist() == [0, 1, 2, 0]


def test_seed_decides_the_order():
    settings = {"order": "by_length", "steps": 50, "batch_size": 8}
    orders = [training_order(LENGTHS, **settings, seed=seed).tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_by_length_saves_padding():
    def padding(order):
        rows = training_order(LENGTHS, order=order, steps=50, batch_size=8, seed=1).reshape(50, 8)
        batches = np.asarray(LENGTHS)[rows]
        return 1 - batches.sum() / (batches.max(1) * 8).sum()

    assert padding("by_length") < 0.1 < 0.3 < padding("shuffled")


def test_steps_of_epochs():
    assert [steps_of(1, 100, 32), steps_of(2.5, 64, 32), steps_of(0.01, 10, 32)] == [3, 5, 1]


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="0 examples"):
        training_order([], order="given", steps=1, batch_size=1, seed=0)
