"""One small network and one small training loop for everything that is not a language model."""

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn


def mlp(*sizes: int, seed: int) -> nn.Sequential:
    """A multilayer perceptron with ReLU between layers of `sizes`, initialised from `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [layer for n, m in pairwise(sizes) for layer in (nn.Linear(n, m), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def shuffled_batches(n: int, *, batch_size: int, epochs: int, seed: int) -> Iterator[Tensor]:
    """Row numbers of each batch, [batch_size] or fewer at the end of an epoch; every epoch in a new order."""
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        yield from torch.from_numpy(rng.permutation(n)).split(batch_size)


def fit(
    model: nn.Module,
    losses: Callable[[Tensor], Tensor],
    batches: Iterable[Tensor],
    *,
    lr: float,
    after_step: Callable[[int], bool | None] | None = None,
) -> None:
    """Minimise with Adam the mean of `losses(rows)`, [batch], over `batches` of row numbers, in the order they come.

    `after_step` is told the number of the step just made, from 1; that is where checkpoints are evaluated, and where it
    says true nothing more is trained.

    Raises
    ------
    FloatingPointError
        The loss is not finite.
    """
    optimiser = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
    for step, rows in enumerate(batches, 1):
        loss = losses(rows).mean()
        if not torch.isfinite(loss):
            raise FloatingPointError(f"loss {loss.item()} at step {step}; lower the learning rate, or check the inputs")
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if after_step is not None and after_step(step):
            return
