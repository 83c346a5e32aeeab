"""A distributional reward against a Bradley-Terry reward on held-out comparisons: divergence found, sides right."""

from typing import Any

import numpy as np
import torch
from scipy.stats import bootstrap

from preflow.divergence.models import Recipe, fit_best
from preflow.divergence.rewards import Reward
from preflow.divergence.scores import best_weight, diverging_score, gap_and_spread
from preflow.divergence.voted import Voted
from preflow.evaluation import auroc, bootstrap_interval, correctness, mcnemar, paired_bootstrap

NAMES = ("mean_variance_kl", "bt_all")
"""The reward that is kept, and the baseline that it is measured against."""


def fitted_rewards(voted: Voted, recipe: Recipe, *, l2_grid: list[float], encoder: str) -> dict[str, Reward]:
    """Each of NAMES, fitted on the train split; the validation split chooses l2 and the epoch."""
    train, validation = voted.of("train").pairs, voted.of("validation").pairs
    return {
        name: fit_best(name, train, validation, recipe, l2_grid=l2_grid, inputs={"encoder": encoder}) for name in NAMES
    }


def chosen_weight(reward: Reward, voted: Voted, *, grid: list[float]) -> float:
    """The lambda with the largest AUROC on the validation split."""
    held = voted.of("validation")
    found = gap_and_spread(reward, held.pairs.a, held.pairs.b)
    return best_weight(*found, held.table["diverging"].to_numpy(), grid=grid)


def why_not(voted: Voted) -> str | None:
    """Why nothing can be fitted or measured on these votes, or None."""
    for split in ("train", "validation", "test"):
        held = voted.of(split)
        n, diverging = len(held.table), int(held.table["diverging"].sum())
        decided = int((held.pairs.majority != 0).sum())
        if n < 10 or min(diverging, n - diverging) < 2 or not decided:
            return (
                f"of the {split} split {n} comparisons have votes of two annotators or more, on {diverging} of them "
                f"they differ and {decided} have a majority; ten are needed, two of each kind and one with a majority"
            )
    return None


def evaluation(rewards: dict[str, Reward], weights: dict[str, float], voted: Voted, *, rounds: int, seed: int) -> dict:
    """Accuracy against the majority and AUROC of divergence on the test split, with 95 % intervals and paired tests."""
    test = voted.of("test")
    groups, diverging = test.table["prompt_group"].to_numpy(), test.table["diverging"].to_numpy()
    truth = test.pairs.majority.numpy()
    decided = truth != 0
    right, score = {}, {}
    for name, reward in rewards.items():
        score[name] = diverging_score(*gap_and_spread(reward, test.pairs.a, test.pairs.b), weights[name])
        right[name] = correctness(_margin(reward, test) * truth)[decided]
    kept, baseline = NAMES
    interval = {"rounds": rounds, "seed": seed}
    return {
        "comparisons": len(truth),
        "diverging": int(diverging.sum()),
        "lambda": weights[kept],
        "accuracy": {name: _flat(bootstrap_interval(right[name], groups[decided], **interval)) for name in NAMES},
        "accuracy_difference": _flat(paired_bootstrap(right[kept], right[baseline], groups[decided], **interval)),
        "accuracy_p": mcnemar(right[kept], right[baseline])["p_value"],
        "auroc": {name: auroc(score[name], diverging) for name in NAMES},
        "auroc_difference": _auroc_difference(score[kept], score[baseline], diverging, **interval),
    }


def _margin(reward: Reward, voted: Voted) -> np.ndarray:
    with torch.no_grad():
        return (reward.moments(voted.pairs.a)[0] - reward.moments(voted.pairs.b)[0]).double().numpy()


def _flat(interval: Any) -> dict[str, float]:
    return {"estimate": interval.estimate, "low": interval.low, "high": interval.high}


def _auroc_difference(
    first: np.ndarray, second: np.ndarray, positive: np.ndarray, *, rounds: int, seed: int
) -> dict[str, float]:
    """The difference of two AUROCs on the same rows with its percentile interval, rows of each class resampled."""
    there, not_there = np.stack([first, second])[:, positive], np.stack([first, second])[:, ~positive]

    def difference(rows: np.ndarray, others: np.ndarray) -> float:
        labels = np.r_[np.ones(len(rows)), np.zeros(len(others))]
        one, two = (auroc(np.r_[there[side, rows], not_there[side, others]], labels.astype(bool)) for side in (0, 1))
        return one - two

    rows = [np.arange(there.shape[1]), np.arange(not_there.shape[1])]
    found = bootstrap(
        rows, difference, n_resamples=rounds, vectorized=False, method="percentile", rng=np.random.default_rng(seed)
    )
    low, high = found.confidence_interval
    return {"estimate": difference(*rows), "low": float(low), "high": float(high)}
