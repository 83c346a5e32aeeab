"""What the models of a sweep are worth against the truth: scores of every run, tests, and intervention curves."""

from typing import Any

import numpy as np
import polars as pl
import torch
from statsmodels.stats.weightstats import DescrStatsW

from preflow.concepts.arrays import ConceptArrays, concept_arrays
from preflow.concepts.comparison import GOALS, paired_comparisons, pareto_front
from preflow.concepts.interventions import POLICIES, intervention_curve, intervention_values
from preflow.concepts.metrics import scores
from preflow.concepts.schemas import ConceptScores
from preflow.concepts.stack import Predictions
from preflow.concepts.sweep import Bottlenecks

TESTED = (*GOALS, "memorised", "concept_ece")
KEPT = "best"  # the checkpoint that a user would take


def concept_scores(
    runs: pl.DataFrame, predictions: pl.DataFrame, items: pl.DataFrame, concepts: pl.DataFrame,
    noisy: pl.DataFrame, truth: pl.DataFrame,
) -> pl.DataFrame:  # fmt: skip
    """`ConceptScores`: every run on test, and the share of flipped train labels that it has learned by heart."""
    test, true_train = (concept_arrays(items, truth, concepts, split) for split in ("test", "train"))
    train = concept_arrays(items, noisy, concepts, "train")
    order = runs["run"].to_list()
    on_test, on_train = (_stacked(predictions, arrays, order) for arrays in (test, train))
    values = scores(on_test, test, on_train, train.concepts, true_train.concepts)
    found = {name: pl.Series(value.numpy()).fill_nan(None) for name, value in values.items()}
    return ConceptScores.cast(runs.with_columns(**found))


def _stacked(predictions: pl.DataFrame, arrays: ConceptArrays, runs: list[int]) -> Predictions:
    """What each run says of the items of `arrays`."""
    wanted = pl.DataFrame({"item_id": arrays.item_ids}).with_row_index("place")
    rows = predictions.join(wanted, on="item_id").sort("run", "place")
    shape = (len(runs), len(arrays), -1)
    columns = (rows[name].explode().to_numpy() for name in ("concept_logits", "class_logits"))
    return Predictions(*(torch.from_numpy(np.array(values, dtype=np.float32)).reshape(shape) for values in columns))


def concept_report(
    scores: pl.DataFrame, truth: pl.DataFrame, doubted: pl.DataFrame, rates: pl.DataFrame
) -> dict[str, Any]:
    """The chosen runs of each method, paired tests against the first one, and what the doubts found.

    Parameters
    ----------
    scores, truth, doubted, rates
        `ConceptScores`, `TrueConceptLabels`, `DoubtedLabels` and `FlipRates`.
    """
    chosen = scores.filter("chosen", checkpoint=KEPT)
    baseline = chosen["method"][0]
    methods = [
        {"method": method, "lambdas": sorted(part["lambda"].to_list())} | {m: _mean(part[m]) for m in TESTED}
        for (method,), part in chosen.group_by("method", maintain_order=True)
    ]
    tests: list[dict[str, Any]] = []
    if chosen["seed"].n_unique() > 1:
        rated = scores.with_columns(rate=pl.lit(0.0))
        found = paired_comparisons(rated, baseline=baseline, checkpoint=KEPT, metrics=TESTED)
        tests = found.filter(pl.col("seeds") > 0).drop("rate").to_dicts()
    doubts = doubts_found(doubted, rates, truth)
    points = front(scores).to_dicts()
    return {"methods": methods, "baseline": baseline, "against_baseline": tests, "front": points, "doubts": doubts}


def doubts_found(doubted: pl.DataFrame, rates: pl.DataFrame, truth: pl.DataFrame) -> dict[str, Any]:
    """Precision of the queue at the number of planted flips, beside confident learning on the same predictions."""
    known = doubted.join(truth.select("item_id", "concept", "flipped"), on=["item_id", "concept"])
    planted = int(known["flipped"].sum())
    orders = {"queue": "rank", "confident_learning": "self_confidence"}
    found = {
        name: known.sort(by, "rank").head(planted)["flipped"].mean() if planted else None for name, by in orders.items()
    }
    off = rates.join(known.group_by("concept").agg(true=pl.col("flipped").mean()), on="concept")
    error = (off["flip_rate"] - off["true"]).abs().mean()
    return {"labels": len(known), "planted": planted, "flip_rate_error": error} | found


def front(scores: pl.DataFrame) -> pl.DataFrame:
    """The Pareto front of the settings at the kept checkpoint; see `pareto_front`."""
    rated = scores.filter(checkpoint=KEPT).with_columns(rate=pl.lit(0.0))
    return pareto_front(rated).drop("rate")


def intervention_curves(
    models: Bottlenecks, items: pl.DataFrame, noisy: pl.DataFrame, truth: pl.DataFrame
) -> pl.DataFrame:
    """Task accuracy on test by method, policy and number of corrected concepts: mean, `low` and `high` over seeds."""
    concepts = pl.DataFrame({"concept": models.concepts})
    train, test = concept_arrays(items, noisy, concepts, "train"), concept_arrays(items, truth, concepts, "test")
    curves = []
    for one in models.kept:
        values = intervention_values(one.model, train)
        for policy in POLICIES:
            curve = intervention_curve(one.model, test, values, policy=policy, seed=one.seed)
            curves.append(curve.with_columns(method=pl.lit(one.method), policy=pl.lit(policy)))
    groups = pl.concat(curves).group_by("method", "policy", "corrected", maintain_order=True)
    rows = [
        dict(zip(("method", "policy", "corrected"), key, strict=True)) | _mean(part["task_accuracy"])
        for key, part in groups
    ]
    return pl.DataFrame(rows)


def _mean(values: pl.Series) -> dict[str, float | None]:
    """Mean over seeds with its 95 % t interval; no interval of one seed."""
    known = values.drop_nulls().to_numpy()
    if not len(known):
        return {"mean": None, "low": None, "high": None}
    mean = float(known.mean())
    if len(known) < 2:
        return {"mean": mean, "low": None, "high": None}
    low, high = DescrStatsW(known).tconfint_mean()
    return {"mean": mean, "low": float(low), "high": float(high)}
