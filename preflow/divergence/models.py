"""Fitting rewards on response inputs to votes: the distributional ones and the Bradley-Terry models beside them."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from preflow.divergence.mean_variance import kl_loss, nll_loss
from preflow.divergence.rewards import BradleyTerry, DistributionalReward, MeanVariance, Rating, Reward
from preflow.fit import fit, shuffled_batches
from preflow.objectives import bradley_terry

SIDE_VALUE = (-1.0, -1.0, 0.0, 1.0, 1.0, -1.0, 1.0)  # of OUTCOMES, for a


@dataclass(frozen=True)
class VotedPairs:
    """Response inputs, [n, d] each, and how many annotators gave each outcome, [n, 7], columns as OUTCOMES."""

    a: Tensor
    b: Tensor
    counts: Tensor

    def __getitem__(self, rows: Tensor) -> "VotedPairs":
        return VotedPairs(self.a[rows], self.b[rows], self.counts[rows])

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def share_a(self) -> Tensor:
        """Share of the annotators for A, [n], a tie counting half."""
        return (1 + self.counts @ self.counts.new_tensor(SIDE_VALUE) / self.counts.sum(1)) / 2

    @property
    def majority(self) -> Tensor:
        """1 where more annotators are for A than for B, -1 the other way round, 0 for neither, [n]."""
        return torch.sign(self.counts @ self.counts.new_tensor(SIDE_VALUE))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a reward is made and trained."""

    widths: Sequence[int]
    """Hidden layers; none for a linear reward."""
    l2: float
    """Weight of |w|^2 / 2 over the weights of the network, biases left out."""
    lr: float
    epochs: int
    batch_size: int
    rho: float
    """Correlation of the rewards of two responses over annotators; mean_variance_kl alone uses it."""
    sigma_floor: float
    seed: int


Losses = Callable[[Any, VotedPairs], Tensor]


def share_loss(model: BradleyTerry, pairs: VotedPairs, share: Tensor) -> Tensor:
    """Bradley-Terry with soft labels, [n]: share of the weight for A."""
    a, b = model.moments(pairs.a)[0], model.moments(pairs.b)[0]
    return share * bradley_terry(a, b, None) + (1 - share) * bradley_terry(b, a, None)


def _histogram_loss(model: DistributionalReward, pairs: VotedPairs) -> Tensor:
    return kl_loss(model.log_bins(pairs.a, pairs.b), pairs.counts)


def _sides_loss(model: MeanVariance, pairs: VotedPairs) -> Tensor:
    return nll_loss(*model.difference(pairs.a, pairs.b), pairs.share_a)


# Name -> the reward and the loss it is trained on. Bradley-Terry on the majority trains only where there is one.
MODELS: dict[str, tuple[type[Reward], Losses]] = {
    "bt_majority": (BradleyTerry, lambda model, pairs: share_loss(model, pairs, (1 + pairs.majority) / 2)),
    "bt_all": (BradleyTerry, lambda model, pairs: share_loss(model, pairs, pairs.share_a)),
    "mean_variance_nll": (MeanVariance, _sides_loss),
    "mean_variance_kl": (MeanVariance, _histogram_loss),
    "classification_kl": (Rating, _histogram_loss),
}


def fit_model(
    name: str, train: VotedPairs, validation: VotedPairs | None, recipe: Recipe, *, inputs: dict[str, Any]
) -> Reward:
    """Fit one of MODELS; with validation pairs, the epoch with the least loss on them is kept, else the last.

    Parameters
    ----------
    inputs
        What to note in the model's config about how its inputs were made.

    Raises
    ------
    ValueError
        The name is unknown, or there is no pair to train on.
    """
    if name not in MODELS:
        raise ValueError(f"model {name!r} is unknown; known are {sorted(MODELS)}")
    kind, losses = MODELS[name]
    train, validation = _trainable(name, train), validation and _trainable(name, validation)
    if not len(train):
        raise ValueError(f"there is no pair to train {name} on")
    rho = recipe.rho if name == "mean_variance_kl" else 0.0
    settings = {"rho": rho, "sigma_floor": recipe.sigma_floor} if kind is MeanVariance else {}
    model = kind(train.a.shape[1], widths=recipe.widths, seed=recipe.seed, inputs=inputs, **settings)
    model.standardise_by(torch.cat([train.a, train.b]))
    train_reward(model, losses, train, validation, recipe)
    return model


def fit_best(
    name: str,
    train: VotedPairs,
    validation: VotedPairs,
    recipe: Recipe,
    *,
    l2_grid: Sequence[float],
    inputs: dict[str, Any],
) -> Reward:
    """`fit_model` with each l2 of the grid in place of the recipe's; the one with the least validation loss is kept."""
    fits = [fit_model(name, train, validation, replace(recipe, l2=l2), inputs=inputs) for l2 in l2_grid]
    return min(fits, key=lambda model: validation_loss(name, model, validation))


@torch.no_grad()
def validation_loss(name: str, model: Reward, pairs: VotedPairs) -> float:
    """Mean of the loss that the model is trained on, over pairs that it is not trained on."""
    return float(MODELS[name][1](model, _trainable(name, pairs)).mean())


def _trainable(name: str, pairs: VotedPairs) -> VotedPairs:
    return pairs[pairs.majority != 0] if name == "bt_majority" else pairs


def train_reward(
    model: Reward, losses: Losses, train: VotedPairs, validation: VotedPairs | None, recipe: Recipe
) -> None:
    """Train in place; see `fit_model`."""
    steps = -(-len(train) // recipe.batch_size)
    least, best = float("inf"), None

    @torch.no_grad()
    def keep_best(step: int) -> None:
        nonlocal least, best
        if validation and step % steps == 0 and (loss := float(losses(model, validation).mean())) < least:
            least, best = loss, deepcopy(model.state_dict())

    weights = [values for name, values in model.net.named_parameters() if name.endswith("weight")]

    def penalised(rows: Tensor) -> Tensor:
        return losses(model, train[rows]) + recipe.l2 / 2 * torch.stack([(w**2).sum() for w in weights]).sum()

    fit(model, penalised, _batches(len(train), recipe), lr=recipe.lr, after_step=keep_best)
    if best is not None:
        model.load_state_dict(best)


def _batches(n: int, recipe: Recipe) -> Iterator[Tensor]:
    return shuffled_batches(n, batch_size=recipe.batch_size, epochs=recipe.epochs, seed=recipe.seed)
