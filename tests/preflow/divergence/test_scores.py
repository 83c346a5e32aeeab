import numpy as np
import pytest
import torch

from preflow.divergence.rewards import MeanVariance
from preflow.divergence.schemas import PredictedDivergence
from preflow.divergence.scores import best_weight, diverging_score, predicted_divergence
from preflow.evaluation import auroc

IDS = [f"{number:032x}" for number in range(20)]


def test_auroc_by_hand():
    assert auroc(np.array([1.0, 2.0, 3.0]), np.array([False, False, True])) == 1.0
    assert auroc(np.array([1.0, 2.0, 2.0, 0.0]), np.array([True, False, True, False])) == 2.5 / 4


@pytest.mark.parametrize("positive", [[True, True], [False, False]])
def test_auroc_of_one_class_is_refused(positive):
    with pytest.raises(ValueError, match="AUROC needs positives, negatives"):
        auroc(np.zeros(2), np.array(positive))


def test_a_score_that_is_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        auroc(np.array([np.nan, 1.0]), np.array([True, False]))


def test_the_weight_is_the_least_of_the_best():
    gap, spread = np.array([0.0, 2.0, 1.0]), np.array([1.0, 3.0, 1.0])
    diverging = np.array([False, True, False])
    # Scores at weight 0: 0, -2, -1 (AUROC 0); at 1: 1, 1, 0 (3/4); at 2 and 4 the diverging pair leads.
    assert best_weight(gap, spread, diverging, grid=(4.0, 2.0, 1.0, 0.0)) == 2.0
    assert diverging_score(gap, spread, 2.0).tolist() == [2.0, 4.0, 1.0]


def test_predicted_divergence_mirrors_under_a_swap_and_keeps_its_schema():
    reward = MeanVariance(4, widths=(8,), seed=0, inputs={}, rho=0.3, sigma_floor=0.05)
    a, b = torch.randn(2, 20, 4, generator=torch.Generator().manual_seed(1))
    one = PredictedDivergence.validate(predicted_divergence(reward, IDS, a, b, weight=1.0))
    other = predicted_divergence(reward, IDS[::-1], b.flip(0), a.flip(0), weight=1.0)
    assert one["pair_id"].to_list() == other["pair_id"].to_list() == IDS
    for name in ("diverging_score", "opposite_sides", "p_tie"):
        assert np.allclose(one[name], other[name], atol=1e-12)
    assert np.allclose(one["p_a_clear"], other["p_b_clear"], atol=1e-12)
    assert np.array_equal(one["mu_a"], other["mu_b"])
