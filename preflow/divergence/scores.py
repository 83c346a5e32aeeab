"""What a reward says about where people will differ, per pair."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import polars as pl
import torch
from torch import Tensor

from preflow.divergence.mean_variance import opposite_sides
from preflow.divergence.rewards import DistributionalReward, Reward
from preflow.divergence.schemas import BINS, PredictedDivergence
from preflow.evaluation import auroc


@torch.no_grad()
def gap_and_spread(reward: Reward, a: Tensor, b: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """|mu_A - mu_B| and sigma_A + sigma_B of pairs of inputs, [n] each."""
    (mu_a, sigma_a), (mu_b, sigma_b) = reward.moments(a), reward.moments(b)
    return (mu_a - mu_b).abs().double().numpy(), (sigma_a + sigma_b).double().numpy()


def diverging_score(gap: np.ndarray, spread: np.ndarray, weight: float) -> np.ndarray:
    """The score lambda (sigma_A + sigma_B) - |mu_A - mu_B|, [n]: high where people differ; 0 leaves the gap alone."""
    return weight * spread - gap


def best_weight(gap: np.ndarray, spread: np.ndarray, diverging: np.ndarray, *, grid: Sequence[float]) -> float:
    """The lambda of `grid` with the largest AUROC of the score on validation pairs; the least of equals."""
    found = {weight: auroc(diverging_score(gap, spread, weight), diverging) for weight in sorted(grid)}
    return max(found, key=lambda weight: found[weight])


@torch.no_grad()
def predicted_divergence(
    reward: DistributionalReward, pair_ids: Sequence[str], a: Tensor, b: Tensor, *, weight: float
) -> pl.DataFrame:
    """`PredictedDivergence` of pairs of inputs, [n, d] each, sorted by pair id; `weight` is lambda."""
    reward, a, b = deepcopy(reward).double(), a.double(), b.double()
    log_bins = reward.log_bins(a, b)
    moments = dict(zip(("mu_a", "sigma_a", "mu_b", "sigma_b"), (*reward.moments(a), *reward.moments(b)), strict=True))
    columns = {name: values.numpy() for name, values in moments.items()}
    bins = {f"p_{name}": log_bins[:, k].exp().clamp(max=1).numpy() for k, name in enumerate(BINS)}
    scores = {
        "diverging_score": diverging_score(*gap_and_spread(reward, a, b), weight),
        "opposite_sides": opposite_sides(log_bins).clamp(max=1).numpy(),
    }
    return PredictedDivergence.cast(pl.DataFrame({"pair_id": pair_ids, **columns, **bins, **scores}).sort("pair_id"))
