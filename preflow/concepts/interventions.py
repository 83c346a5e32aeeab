"""What correcting concepts at test time is worth: task accuracy against the number of corrected concepts.

Three orders: random; by uncertainty (entropy of the predicted concept; Shin et al., 2023); cooperative: uncertainty
times the expected change of the label. CooP (Chauhan et al., 2023) adds the two, weighted, and a cost; a product needs
no weights.
"""

from collections.abc import Callable

import numpy as np
import polars as pl
import torch
from torch import Tensor

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.metrics import entropy
from preflow.concepts.networks import Bottleneck

Forward = Callable[[Tensor], Tensor]
"""Label probabilities, [n, classes], of all items under given concepts, [n, k]."""
POLICIES = ("random", "uncertainty", "cooperative")


@torch.no_grad()
def intervention_values(model: Bottleneck, train: ConceptArrays) -> Tensor:
    """What stands for an absent and a present concept, [2, k]: 5th and 95th percentile of its predicted probability.

    So Koh et al. (2020) do with logits: the head has seen no certain concepts. Embeddings have, and take 0 and 1.
    """
    if model.m:
        return torch.tensor([0.0, 1.0])[:, None].expand(2, model.k)
    logits = model(train.inputs, torch.full_like(train.concepts, torch.nan))[0]
    return torch.quantile(torch.sigmoid(logits), torch.tensor([0.05, 0.95]), dim=0)


@torch.no_grad()
def intervention_curve(
    model: Bottleneck, items: ConceptArrays, values: Tensor, *, policy: str, seed: int
) -> pl.DataFrame:
    """`corrected` (0 to k) and `task_accuracy`: items get their true concepts one by one, each in its own order.

    `items` hold true concepts; an unknown one is never corrected, which ends the corrections of its item early. What
    the head is given for them is `values`, [2, k], see `intervention_values`.

    Raises
    ------
    ValueError
        The policy is unknown.
    """
    if policy not in POLICIES:
        raise ValueError(f"intervention policy {policy!r} is unknown; known are {POLICIES}")
    given = torch.full_like(items.concepts, torch.nan)
    hidden = model.encoder(items.inputs)
    logits = model.from_hidden(hidden, given)[0]

    def labels(given: Tensor) -> Tensor:
        return model.from_hidden(hidden, given)[1].softmax(-1)

    constant = {
        "random": torch.rand(given.shape, generator=torch.Generator().manual_seed(seed)),
        "uncertainty": entropy(logits),
    }
    accuracy = [_accuracy(labels(given), items)]
    for _ in range(given.shape[1]):
        worth = constant.get(policy)
        if worth is None:
            worth = entropy(logits) * expected_change(labels, logits, given, values)
        given = _correct_one(given, worth, items.concepts, values)
        accuracy.append(_accuracy(labels(given), items))
    return pl.DataFrame({"corrected": np.arange(len(accuracy)), "task_accuracy": accuracy})


def expected_change(labels: Forward, logits: Tensor, given: Tensor, values: Tensor) -> Tensor:
    """Expected total variation by which the label moves once a concept is known, [n, k], over its predicted value."""
    now, p = labels(given), torch.sigmoid(logits)
    changes = torch.zeros_like(p)
    for j in range(p.shape[1]):
        for value, weight in ((values[0, j], 1 - p[:, j]), (values[1, j], p[:, j])):
            known = given.clone()
            known[:, j] = value
            changes[:, j] += weight * (labels(known) - now).abs().sum(-1) / 2
    return changes


def _correct_one(given: Tensor, worth: Tensor, concepts: Tensor, values: Tensor) -> Tensor:
    """Give each item the concept of the largest worth among those not given yet and known."""
    uncorrected = given.isnan() & ~concepts.isnan()
    best = worth.masked_fill(~uncorrected, -torch.inf).argmax(-1)
    chosen = torch.nn.functional.one_hot(best, given.shape[1]).bool() & uncorrected
    return torch.where(chosen, torch.where(concepts == 1, values[1], values[0]), given)


def _accuracy(labels: Tensor, items: ConceptArrays) -> float:
    return float((labels.argmax(-1) == items.classes).double().mean())
