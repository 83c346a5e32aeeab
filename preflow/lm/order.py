"""The order in which examples are trained on: decided once, before training, so that a resumed run sees the same."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

Order = Literal["shuffled", "by_length", "given"]

BATCHES_PER_SORT = 50  # by_length sorts within this many batches: little padding, and batches still differ


def training_order(lengths: Sequence[int], *, order: Order, steps: int, batch_size: int, seed: int) -> np.ndarray:
    """Rows in the order of training, [steps * batch_size] int64; every row once before any is seen again.

    Parameters
    ----------
    lengths
        Tokens of each example.
    order
        `shuffled`; `by_length`, shuffled batches of similar length; `given`, as they stand (a curriculum).

    Raises
    ------
    ValueError
        There are no examples.
    """
    if not len(lengths):
        raise ValueError("there is nothing to train on: 0 examples; see the reasons why rows were refused")
    rng = np.random.default_rng(seed)
    wanted = steps * batch_size
    epochs = range(-(-wanted // len(lengths)))
    rows = np.arange(len(lengths))
    parts = [rows if order == "given" else rng.permutation(rows) for _ in epochs]
    if order == "by_length":
        parts = [_group(part, np.asarray(lengths), batch_size, rng) for part in parts]
    return np.concatenate(parts)[:wanted] if parts else rows[:0]


def steps_of(epochs: float, examples: int, batch_size: int) -> int:
    """Steps of that many passes over the examples, at least one."""
    return max(1, round(epochs * examples / batch_size))


def _group(rows: np.ndarray, lengths: np.ndarray, batch_size: int, rng: np.random.Generator) -> np.ndarray:
    size = batch_size * BATCHES_PER_SORT
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    ordered = np.concatenate([chunk[np.argsort(lengths[chunk], kind="stable")] for chunk in chunks])
    batches = [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]
    last = [] if len(batches[-1]) == batch_size else [batches.pop()]  # a short batch must not shift the others
    return np.concatenate([*(batches[i] for i in rng.permutation(len(batches))), *last])
