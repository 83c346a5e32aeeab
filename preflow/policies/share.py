"""The share of pairs to keep, measured on validation pairs by policies that were trained on the easiest share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from preflow.evaluation import bootstrap_interval
from preflow.policies.study import Study
from preflow.policies.training import examples_of, log_ratios, train_on
from preflow.treatments.schemas import TreatedPairs, training_rows
from preflow.treatments.selection import select_easiest
from preflow.treatments.validation import best_on_validation


def select_on_validation(
    study: Study,
    pairs: pl.DataFrame,
    difficulty: pl.DataFrame,
    validation: pl.DataFrame,
    *,
    shares: Sequence[float],
    curriculum: bool,
    seeds: Sequence[int],
    rounds: int,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The easiest share of `pairs` (see `select_easiest`), of the size that `share_curve` favours, and that curve.

    No pairs, no selection: an empty table, and null for the share.
    """
    if pairs.is_empty():
        return TreatedPairs.create_empty(), {"share": None, "curve": []}
    chosen = share_curve(
        study, pairs, difficulty, validation, shares=shares, curriculum=curriculum, seeds=seeds, rounds=rounds
    )
    return select_easiest(pairs, difficulty, share=chosen["share"], curriculum=curriculum), chosen


def share_curve(
    study: Study,
    pairs: pl.DataFrame,
    difficulty: pl.DataFrame,
    validation: pl.DataFrame,
    *,
    shares: Sequence[float],
    curriculum: bool,
    seeds: Sequence[int],
    rounds: int,
) -> dict[str, Any]:
    """Train on the easiest share of `pairs` for each share and seed; see how many validation pairs come out right.

    A pair is right where the policy's log-ratio to the start policy is greater for chosen than for rejected. Labels of
    validation pairs are as noisy as all others, so the differences are too small, but not their order.

    Returns `share`, the best one, and `curve`: per share its accuracy, low and high (95 %, prompts resampled).
    """
    examples = examples_of(study, validation)
    measured: dict[float, np.ndarray] = {}
    for share in shares:
        rows = training_rows(select_easiest(pairs, difficulty, share=share, curriculum=curriculum))
        models = (train_on(study, rows, seed=seed).model for seed in seeds)
        ratios = [log_ratios(model, examples, max_batch_tokens=study.recipe.max_batch_tokens) for model in models]
        measured[share] = np.mean([found[:, 0] > found[:, 1] for found in ratios], axis=0)
    groups = validation["prompt_group"].to_list()
    curve = []
    for share, right in measured.items():
        interval = bootstrap_interval(right, groups, rounds=rounds, seed=0)
        curve.append({"share": share, "accuracy": interval.estimate, "low": interval.low, "high": interval.high})
    return {"share": best_on_validation(measured), "curve": curve}
