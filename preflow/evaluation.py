"""Honest numbers for anything that predicts which of two responses is better: intervals, calibration, paired tests."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit, logit
from scipy.stats import binomtest, rankdata

from preflow.reward.bradley_terry import cross_entropy, fit_bradley_terry

MIN_ROUNDS = 2000  # with 100 rounds the end points of an interval move by several points from seed to seed
MIN_CLUSTERS = 10  # below, resampling clusters has too few distinct outcomes to mean anything
LEVEL = 0.95

_CHUNK = 4_000_000  # drawn indices held at once


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % bootstrap percentile interval."""

    estimate: float
    low: float
    high: float
    unit: str
    """What was resampled: cluster or row."""


def bootstrap_interval(
    values: np.ndarray, clusters: Sequence[str] | np.ndarray | None, *, rounds: int, seed: int
) -> Interval:
    """Percentile interval of the mean of `values`, [n], under resampling of whole clusters (Efron, 1979).

    Rows are resampled instead where `clusters` is None or names fewer than MIN_CLUSTERS; `unit` says which it was.

    Raises
    ------
    ValueError
        There is no value, a value is not finite, or `rounds` is below MIN_ROUNDS.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0 or not np.isfinite(values).all():
        raise ValueError(f"a bootstrap needs finite values; it got {len(values)}, not all finite or none at all")
    if rounds < MIN_ROUNDS:
        raise ValueError(f"{rounds} bootstrap rounds are too few for stable ends; take at least {MIN_ROUNDS}")
    labels = np.arange(len(values)) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    unit = "row" if clusters is None or labels.max() + 1 < MIN_CLUSTERS else "cluster"
    if unit == "row":
        labels = np.arange(len(values))
    means = _resampled_means(np.bincount(labels, values), np.bincount(labels), rounds, seed)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(values.mean()), float(low), float(high), unit)


def paired_bootstrap(
    first: np.ndarray, second: np.ndarray, clusters: Sequence[str] | np.ndarray | None, *, rounds: int, seed: int
) -> Interval:
    """Interval of mean(first) - mean(second), both measured on the same rows, [n] each; see `bootstrap_interval`.

    Raises
    ------
    ValueError
        The two are not of one length.
    """
    if len(first) != len(second):
        raise ValueError(f"a paired comparison needs the same rows twice; it got {len(first)} and {len(second)}")
    return bootstrap_interval(np.subtract(first, second, dtype=np.float64), clusters, rounds=rounds, seed=seed)


def mcnemar(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """Exact McNemar test (McNemar, 1947) of two predictors' correctness on the same rows, [n] each.

    Only rows where one is right and the other wrong say anything: under the null, each is the right one half the time.
    """
    only_first = int((np.asarray(first) > np.asarray(second)).sum())
    only_second = int((np.asarray(first) < np.asarray(second)).sum())
    discordant = only_first + only_second
    p_value = float(binomtest(only_first, discordant).pvalue) if discordant else 1.0
    return {"only_first": only_first, "only_second": only_second, "p_value": p_value}


def expected_calibration_error(confidence: np.ndarray, outcome: np.ndarray, *, bins: int) -> tuple[float, pl.DataFrame]:
    """ECE over bins of equal mass (Naeini et al., 2015; Nguyen and O'Connor, 2015) and its reliability table.

    Parameters
    ----------
    confidence
        Predicted probability, [n].
    outcome
        What it is a probability of: 0 or 1, or a share of votes, [n].

    Returns
    -------
    The mean over rows of |mean outcome - mean confidence| of the row's bin, and one table row a bin.
    """
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    table = pl.DataFrame(
        {
            "n": [len(part) for part in parts],
            "confidence": [float(confidence[part].mean()) for part in parts],
            "outcome": [float(outcome[part].mean()) for part in parts],
        }
    )
    gaps = (table["confidence"] - table["outcome"]).abs()
    return float((gaps * table["n"]).sum() / len(order)), table


def evaluate(predictions: pl.DataFrame, pairs: pl.DataFrame, *, bootstrap: int, bins: int, seed: int) -> dict:
    """The reward model against its baselines on each split, as JSON-ready numbers: {split: {...}}.

    Accuracy is against the recorded label, a tie in reward counting half. Log-loss is the cross-entropy with the vote
    share; for calibration the outcome is the share of votes for the side that the model prefers. The baselines:
    `length` (Bradley-Terry on log length, fitted on train), `longer` (the longer one wins) and `majority` (the side, a
    or b, that wins most often in train; a coin where the source lists the better one on the same side throughout). On
    train the model's predictions are out of fold, the baselines' are not.

    Raises
    ------
    ValueError
        A pair has no prediction, or there is no train pair to fit the baselines on.
    """
    table = pairs.join(
        predictions.select("pair_id", "probability", "reward_chosen", "reward_rejected"), on="pair_id"
    ).sort("pair_id")
    if len(table) != len(pairs):
        raise ValueError(f"{len(pairs) - len(table)} of {len(pairs)} pairs have no prediction; rerun the predictions")
    margins = {"model": (table["reward_chosen"] - table["reward_rejected"]).to_numpy(), **_baselines(table)}
    result = {}
    for split in table["split"].unique().sort().cast(pl.String):
        rows = (table["split"] == split).to_numpy()
        part = {name: margin[rows] for name, margin in margins.items()}
        result[split] = _evaluate_split(part, table.filter(rows), bootstrap=bootstrap, bins=bins, seed=seed)
    return result


def held_out(evaluation: Mapping[str, Any]) -> str:
    """The split to judge by: test, else validation, else train (where the model, but no baseline, is out of fold)."""
    return next(split for split in ("test", "validation", "train") if split in evaluation)


def reliability(evaluation: Mapping[str, Any]) -> pl.DataFrame:
    """The reliability table of the held-out split as `charts.reliability_diagram` draws it."""
    bins = pl.DataFrame(evaluation[held_out(evaluation)]["model"]["reliability"])
    return bins.select(predicted="confidence", observed="outcome", count="n")


def correctness(margin: np.ndarray) -> np.ndarray:
    """1 where chosen has the larger reward, 0 where rejected has, 1/2 for a tie, [n]."""
    return (1 + np.sign(margin)) / 2


def _resampled_means(sums: np.ndarray, counts: np.ndarray, rounds: int, seed: int) -> np.ndarray:
    """Means of `rounds` resamples of the clusters, [rounds]: each drawn cluster brings its sum and its count."""
    rng = np.random.default_rng(seed)
    n = len(sums)
    step = max(1, _CHUNK // n)
    means = []
    for start in range(0, rounds, step):
        drawn = rng.integers(n, size=(min(step, rounds - start), n), dtype=np.int32)
        means.append(sums[drawn].sum(1) / counts[drawn].sum(1))
    return np.concatenate(means)


def _baselines(table: pl.DataFrame) -> dict[str, np.ndarray]:
    """Margins of the baselines, [n] each; those that are no probability model say only who wins."""
    length = (table["chosen"].str.len_chars().log() - table["rejected"].str.len_chars().log()).to_numpy()
    train = (table["split"] == "train").to_numpy()
    if not train.any():
        raise ValueError("no train pair: the length and majority baselines cannot be fitted; check the split shares")
    weight = fit_bradley_terry(length[train, None], table["vote_share"].to_numpy()[train], l2=1e-6)
    is_a = (table["chosen_is"] == "a").to_numpy()
    share_a = (is_a[train].sum() + 1) / (train.sum() + 2)  # Laplace's rule: never certain
    # A source that always lists the better response on one side says nothing by it: no baseline may know that side.
    informative = 0 < is_a.mean() < 1
    majority = logit(share_a) * np.where(is_a, 1, -1) * informative
    return {"length": length * weight[0], "longer": np.sign(length), "majority": majority}


def _evaluate_split(
    margins: dict[str, np.ndarray], table: pl.DataFrame, *, bootstrap: int, bins: int, seed: int
) -> dict:
    groups, share = table["prompt_group"].to_numpy(), table["vote_share"].to_numpy()
    correct = {name: correctness(margin) for name, margin in margins.items()}
    resampling = {"rounds": bootstrap, "seed": seed}
    result: dict = {"n_pairs": len(table), "n_prompt_groups": table["prompt_group"].n_unique()}
    for name, margin in margins.items():
        result[name] = {"accuracy": asdict(bootstrap_interval(correct[name], groups, **resampling))}
        if name != "longer":  # a rule without probabilities
            result[name]["log_loss"] = asdict(bootstrap_interval(cross_entropy(margin, share), groups, **resampling))
    probability = expit(margins["model"])
    prefers_chosen = probability >= 0.5
    confidence = np.where(prefers_chosen, probability, 1 - probability)
    ece, reliability = expected_calibration_error(confidence, np.where(prefers_chosen, share, 1 - share), bins=bins)
    result["model"] |= {"ece": ece, "reliability": reliability.to_dicts()}
    for name in ("length", "longer", "majority"):
        difference = paired_bootstrap(correct["model"], correct[name], groups, **resampling)
        result[f"model_minus_{name}"] = asdict(difference) | mcnemar(correct["model"], correct[name])
    return result


def auroc(score: np.ndarray, positive: np.ndarray) -> float:
    """P(a positive has a higher score than a negative), ties half: Mann-Whitney's U / (n+ n-).

    Raises
    ------
    ValueError
        A score is NaN, or all rows are positive or none is.
    """
    positive = np.asarray(positive, dtype=bool)
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m or np.isnan(score).any():
        raise ValueError(f"AUROC needs positives, negatives and numbers; it got {n} and {m}, or a score is NaN")
    return float((rankdata(score)[positive].sum() - n * (n + 1) / 2) / (n * m))
