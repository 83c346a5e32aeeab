"""What a concept bottleneck is worth, of every model of a stack at once."""

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.stack import Predictions
from preflow.evaluation import expected_calibration_error

BINS = 10  # of the calibration error


def concept_auc(logits: Tensor, concepts: Tensor) -> Tensor:
    """AUROC of each concept over the items where it is known, averaged over concepts, [models]; ties count half.

    `logits` is [models, n, k], `concepts` [n, k], nan for unknown. A concept of one value has no AUROC and is left out.

    Raises
    ------
    ValueError
        No concept has both values.
    """
    areas = [_auc(logits[:, :, j], concepts[:, j]) for j in range(concepts.shape[1])]
    found = [area for area in areas if area is not None]
    if not found:
        raise ValueError("no concept is present in some items and absent in others: no AUROC exists; add items")
    return torch.from_numpy(np.mean(found, axis=0))


def _auc(logits: Tensor, concept: Tensor) -> np.ndarray | None:
    """Mann-Whitney's U / (n+ n-), [models]."""
    known = ~concept.isnan()
    positive = concept[known].bool().numpy()
    n, m = positive.sum(), (~positive).sum()
    if not n or not m:
        return None
    ranks = rankdata(logits[:, known].numpy(), axis=1)
    return (ranks[:, positive].sum(1) - n * (n + 1) / 2) / (n * m)


def task_accuracy(logits: Tensor, classes: Tensor) -> Tensor:
    """Share of items whose class has the highest logit, [models]; `logits` is [models, n, classes]."""
    return (logits.argmax(-1) == classes).double().mean(-1)


def brier(logits: Tensor, concepts: Tensor) -> Tensor:
    """Mean squared distance of the concept probability from the concept over the known cells, [models]."""
    known = ~concepts.isnan()
    return (torch.sigmoid(logits) - concepts).square()[:, known].double().mean(-1)


def concept_ece(logits: Tensor, concepts: Tensor, *, bins: int) -> Tensor:
    """Expected calibration error of the concept probabilities over all known cells, [models]."""
    known = ~concepts.isnan()
    outcome = concepts[known].double().numpy()
    cells = torch.sigmoid(logits)[:, known].double().numpy()
    return torch.tensor([expected_calibration_error(p, outcome, bins=bins)[0] for p in cells])


def memorised_flips(logits: Tensor, labels: Tensor, truth: Tensor) -> Tensor:
    """Share of the wrong training labels that the model itself predicts, [models]; nan where none is wrong.

    `labels` is what was trained on and `truth` what is true, [n, k] each.
    """
    wrong = labels != truth
    wrong &= ~labels.isnan() & ~truth.isnan()
    return ((logits > 0) == labels.bool())[:, wrong].double().mean(-1)


def uncertainty(logits: Tensor) -> Tensor:
    """Mean entropy of the concept probabilities in nats, [models]."""
    return entropy(logits).double().mean((-1, -2))


def entropy(logits: Tensor) -> Tensor:
    """Entropy of a Bernoulli variable with these logits in nats, of the same shape."""
    p = torch.sigmoid(logits)
    return torch.nn.functional.softplus(logits) - p * logits


def scores(
    on_test: Predictions, test: ConceptArrays, on_train: Predictions, labels: Tensor, true_train: Tensor
) -> dict[str, Tensor]:
    """Every measure of the models of a stack, [models] each, by its name.

    Parameters
    ----------
    on_test, on_train
        What the models say of the items of each split.
    test
        With true concepts.
    labels, true_train
        What was trained on and what is true, [n, k] each.
    """
    return {
        "concept_auc": concept_auc(on_test.concepts, test.concepts),
        "task_accuracy": task_accuracy(on_test.classes, test.classes),
        "concept_ece": concept_ece(on_test.concepts, test.concepts, bins=BINS),
        "brier": brier(on_test.concepts, test.concepts),
        "memorised": memorised_flips(on_train.concepts, labels, true_train),
        "uncertainty": uncertainty(on_test.concepts),
    }
