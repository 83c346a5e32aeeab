import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from preflow.concepts.metrics import (
    brier,
    concept_auc,
    concept_ece,
    entropy,
    memorised_flips,
    task_accuracy,
    uncertainty,
)


def test_auc_is_scikit_learns_over_known_cells_with_ties():
    rng = np.random.default_rng(0)
    logits, concepts = (
        rng.integers(-3, 4, size=(3, 60, 4)).astype(np.float32),
        rng.integers(2, size=(60, 4)).astype(np.float32),
    )
    concepts[rng.random(concepts.shape) < 0.2] = np.nan
    concepts[:, 3] = 1  # of one value: left out
    known = ~np.isnan(concepts)
    wanted = [
        np.mean([roc_auc_score(concepts[known[:, j], j], one[known[:, j], j]) for j in range(3)]) for one in logits
    ]
    assert concept_auc(torch.tensor(logits), torch.tensor(concepts)).tolist() == pytest.approx(wanted)


def test_auc_of_constant_concepts_is_refused():
    with pytest.raises(ValueError, match="no AUROC exists"):
        concept_auc(torch.zeros(1, 4, 2), torch.ones(4, 2))


def test_two_models_by_hand():
    big = 20.0  # a probability of 1 within rounding
    logits = torch.tensor([[[big, 0.0], [-big, big]], [[-big, 0.0], [big, -big]]])
    concepts = torch.tensor([[1.0, 0.0], [0.0, math.nan]])
    assert brier(logits, concepts).tolist() == pytest.approx([0.25 / 3, 2.25 / 3], abs=1e-6)
    assert concept_ece(logits, concepts, bins=3).tolist() == pytest.approx([0.5 / 3, 2.5 / 3], abs=1e-6)
    assert uncertainty(logits).tolist() == pytest.approx([math.log(2) / 4] * 2, abs=1e-6)
    classes = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    assert task_accuracy(classes, torch.tensor([0, 1])).tolist() == [1.0, 0.5]


def test_entropy_is_that_of_a_coin():
    assert entropy(torch.tensor([0.0, math.log(3), 60.0])).tolist() == pytest.approx(
        [math.log(2), -0.75 * math.log(0.75) - 0.25 * math.log(0.25), 0], abs=1e-5
    )


def test_memorised_is_the_share_of_wrong_labels_that_are_repeated():
    truth = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    labels = torch.tensor([[0.0, 1.0, 1.0, math.nan]])  # the first two are wrong
    logits = torch.tensor([[[-1.0, -1.0, -1.0, -1.0]], [[1.0, -1.0, 1.0, 1.0]]])
    assert memorised_flips(logits, labels, truth).tolist() == [0.5, 0.0]
    assert memorised_flips(logits, truth, truth).isnan().all()
