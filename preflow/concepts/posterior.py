"""P(label wrong) of every concept cell, estimated flip rates, and a queue for relabelling.

Every cell is predicted by a model that has not seen its item (out of fold). Training under flips ends near the fixed
point z = (logit P + beta z0) / (1 + beta), P the probability that the *recorded* label is 1 and z0 the prior logit;
solved for P it gives back the posterior of the noisy label that CPO had shrunk, and Bayes' rule with the flip rate e of
the concept gives, with q_c = (P(c) - e) / (1 - 2 e), cut to [0, 1], the probability that the true value is c,

    P(wrong | x, label c) = e (1 - q_c) / ((1 - e) q_c + e (1 - q_c)).

The flip rate is that of confident learning (Northcutt et al., 2021), whose ranking by self-confidence stands beside.
The paper on CPO has neither the inversion nor the queue; they follow from its loss.
"""

import numpy as np
import polars as pl
import torch
from torch import Tensor

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.recipe import Recipe, Setting
from preflow.concepts.training import train_bottlenecks


def noisy_posterior(logits: Tensor, *, beta: float, prior: Tensor | None = None) -> Tensor:
    """P(recorded label is 1), of the shape of `logits`: the fixed point solved for P; beta 0 is BCE's."""
    shrunk = (1 + beta) * logits
    return torch.sigmoid(shrunk if prior is None else shrunk - beta * prior)


def p_wrong(noisy: Tensor, labels: Tensor, rates: Tensor) -> Tensor:
    """P(label wrong), [n, k], from P(recorded label is 1), [n, k], and flip rates, [k]; nan where there is no label.

    Raises
    ------
    ValueError
        A flip rate is not in [0, 1/2).
    """
    if not ((rates >= 0) & (rates < 0.5)).all():
        raise ValueError(f"flip rates {rates.tolist()} must be in [0, 1/2): beyond, labels say nothing")
    agrees = torch.where(labels.bool(), noisy, 1 - noisy)
    true = ((agrees - rates) / (1 - 2 * rates)).clamp(0, 1)
    wrong = rates * (1 - true)
    chance = (1 - rates) * true + wrong
    return torch.where(chance > 0, wrong / chance, 0.0).masked_fill(labels.isnan(), torch.nan)


def flip_rates(noisy: Tensor, labels: Tensor) -> Tensor:
    """Flip rate of each concept, [k], by the confident joint (Northcutt et al., 2021, eq. 1 and 2); below 1/2.

    A cell counts as truly v where P(v) reaches the mean of P(v) over the cells labelled v, the likelier v if both do.
    The counts of each recorded label are scaled to its number of cells; the rate is the share off the diagonal.
    """
    rates = [_flip_rate(noisy[:, j].double().numpy(), labels[:, j].numpy()) for j in range(labels.shape[1])]
    return torch.tensor(rates, dtype=noisy.dtype)


def _flip_rate(p: np.ndarray, labels: np.ndarray) -> float:
    p, given = p[~np.isnan(labels)], labels[~np.isnan(labels)].astype(int)
    chances = np.stack([1 - p, p], axis=1)
    counts = np.bincount(given, minlength=2)
    if not counts.all():
        return 0.0  # one value alone: nothing can look wrong
    thresholds = np.array([chances[given == v, v].mean() for v in (0, 1)])
    above = np.where(chances >= thresholds, chances, -1)
    confident = above.max(1) >= 0
    joint = np.zeros((2, 2))
    np.add.at(joint, (given[confident], above.argmax(1)[confident]), 1)
    shares = joint / joint.sum(1, keepdims=True).clip(1)
    return float(min((shares[0, 1] * counts[0] + shares[1, 0] * counts[1]) / counts.sum(), 0.49))


def out_of_fold_logits(
    arrays: ConceptArrays,
    validation: ConceptArrays,
    setting: Setting,
    recipe: Recipe,
    *,
    classes: int,
    folds: int,
    seed: int,
) -> Tensor:
    """Concept logits of every item, [n, k], by the best model of those trained without its fold.

    Raises
    ------
    ValueError
        There are fewer than two folds, or fewer items than folds.
    """
    if not 2 <= folds <= len(arrays):
        raise ValueError(f"{folds} folds of {len(arrays)} items; take at least 2 and at most one a item")
    fold = torch.from_numpy(np.random.default_rng(seed).permutation(len(arrays)) % folds)
    logits = torch.empty_like(arrays.concepts)
    for part in range(folds):
        inside, outside = (rows.nonzero()[:, 0] for rows in (fold == part, fold != part))
        trained = train_bottlenecks(arrays[outside], validation, [setting], recipe, classes=classes, seed=seed)
        logits[inside] = trained.best.predict(arrays[inside]).concepts[0]
    return logits


def by_self_confidence(noisy: Tensor, labels: Tensor) -> np.ndarray:
    """Confident learning's order of the labelled cells, numbered row by row: the least P(recorded label) first."""
    agrees = torch.where(labels.bool(), noisy, 1 - noisy).flatten().double().numpy()
    labelled = np.flatnonzero(~labels.isnan().flatten().numpy())
    return labelled[np.argsort(agrees[labelled], kind="stable")]


def by_posterior(wrong: Tensor, noisy: Tensor, labels: Tensor) -> np.ndarray:
    """The labelled cells, numbered row by row, the largest P(wrong) first; those at the cut by self-confidence."""
    order = by_self_confidence(noisy, labels)
    return order[np.argsort(-wrong.flatten().double().numpy()[order], kind="stable")]


def relabel_queue(arrays: ConceptArrays, concepts: list[str], wrong: Tensor, order: np.ndarray) -> pl.DataFrame:
    """The cells in `order`: item_id, concept, value, p_wrong and rank from 1; `concepts` names the columns."""
    rows, columns = np.divmod(order, len(concepts))
    return pl.DataFrame(
        {
            "item_id": np.asarray(arrays.item_ids)[rows],
            "concept": np.asarray(concepts)[columns],
            "value": arrays.concepts.numpy()[rows, columns] == 1,
            "p_wrong": wrong.double().numpy()[rows, columns],
            "rank": np.arange(1, len(order) + 1, dtype=np.uint32),
        }
    )


def precision_at_planted(order: np.ndarray, labels: Tensor, truth: Tensor) -> float:
    """Share of truly wrong labels among as many cells, first in `order`, as there are wrong ones.

    Raises
    ------
    ValueError
        No label is wrong.
    """
    wrong = ((labels != truth) & ~labels.isnan()).flatten().numpy()
    if not wrong.any():
        raise ValueError("no label is wrong, so that nothing can be found; plant some flips")
    return float(wrong[order[: wrong.sum()]].mean())
