"""The distributional reward of a set of voted comparisons: fitted, evaluated, and asked about every comparison."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import polars as pl
import torch

from preflow.divergence.evaluation import NAMES, chosen_weight, evaluation, fitted_rewards, why_not
from preflow.divergence.models import Recipe
from preflow.divergence.rewards import DistributionalReward, Reward
from preflow.divergence.schemas import PredictedDivergence
from preflow.divergence.scores import predicted_divergence
from preflow.divergence.voted import Voted


class Saved(Protocol):
    """What can be written as a model."""

    def save_pretrained(self, folder: Path) -> None:
        """Write it into `folder`."""


@dataclass(frozen=True)
class NotFitted:
    """Stands for a reward where the votes do not suffice for one."""

    reason: str

    def save_pretrained(self, folder: Path) -> None:
        """Write the reason as `config.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"not_fitted": self.reason}, indent=2) + "\n")


@dataclass(frozen=True)
class Fitted:
    """What came of it."""

    model: Saved
    predicted: pl.DataFrame
    """`PredictedDivergence` of the comparisons, empty without a model."""
    evaluation: dict[str, Any]
    """See `preflow.divergence.evaluation.evaluation`; `not_fitted` is the reason why there is no model, or null."""


def fit_distribution(
    voted: Voted,
    *,
    widths: list[int],
    l2_grid: list[float],
    lr: float,
    epochs: int,
    batch_size: int,
    rho: float,
    sigma_floor: float,
    lambda_grid: list[float],
    bootstrap: int,
    encoder: str,
    threads: int,
    seed: int,
) -> Fitted:
    """Fit the mean-variance reward and its Bradley-Terry baseline; see `Recipe` and `fit_best` for the settings."""
    if reason := why_not(voted):
        return not_fitted(reason)
    torch.set_num_threads(threads)
    recipe = Recipe(
        widths=widths,
        l2=l2_grid[0],
        lr=lr,
        epochs=epochs,
        batch_size=batch_size,
        rho=rho,
        sigma_floor=sigma_floor,
        seed=seed,
    )
    rewards = fitted_rewards(voted, recipe, l2_grid=l2_grid, encoder=encoder)
    return evaluated(rewards, rewards[NAMES[0]], voted, lambda_grid=lambda_grid, bootstrap=bootstrap, seed=seed)


def not_fitted(reason: str) -> Fitted:
    """Nothing but the reason why."""
    return Fitted(NotFitted(reason), PredictedDivergence.create_empty(), {"not_fitted": reason})


def evaluated(
    rewards: dict[str, Reward], model: Saved, voted: Voted, *, lambda_grid: list[float], bootstrap: int, seed: int
) -> Fitted:
    """The fitted rewards of NAMES measured and asked, each with its lambda; `model` is how the first one is saved."""
    weights = {name: chosen_weight(reward, voted, grid=lambda_grid) for name, reward in rewards.items()}
    kept = cast("DistributionalReward", rewards[NAMES[0]])
    ids = voted.table["pair_id"].to_list()
    predicted = predicted_divergence(kept, ids, voted.pairs.a, voted.pairs.b, weight=weights[NAMES[0]])
    measured = evaluation(rewards, weights, voted, rounds=bootstrap, seed=seed)
    return Fitted(model, predicted, {"not_fitted": None} | measured)
