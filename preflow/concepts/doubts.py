"""Every label with the probability that it is wrong, for those who only want cleaner labels."""

import polars as pl
import torch

from preflow.concepts.arrays import class_names, concept_arrays
from preflow.concepts.posterior import (
    by_posterior,
    flip_rates,
    noisy_posterior,
    out_of_fold_logits,
    p_wrong,
    relabel_queue,
)
from preflow.concepts.recipe import Recipe, Setting
from preflow.concepts.schemas import DoubtedLabels, FlipRates


def doubted_labels(
    items: pl.DataFrame, concepts: pl.DataFrame, noisy: pl.DataFrame, setting: Setting, recipe: Recipe,
    *, folds: int, seed: int,
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """`DoubtedLabels` of train, the most doubted first, and `FlipRates`; see `preflow.concepts.posterior`.

    Parameters
    ----------
    items, concepts, noisy
        `ConceptItems`, `Concepts` and `NoisyConceptLabels`.
    setting
        Loss and lambda of the models that doubt; a label is doubted by models that have not seen its item.
    """
    train, validation = (concept_arrays(items, noisy, concepts, split) for split in ("train", "validation"))
    names, labels = concepts["concept"].sort().to_list(), train.concepts
    logits = out_of_fold_logits(
        train, validation, setting, recipe, classes=len(class_names(items)), folds=folds, seed=seed
    )
    noisy_p = noisy_posterior(logits, beta=setting.loss.settings.get("beta", 0.0))
    rates = flip_rates(noisy_p, labels)
    wrong = p_wrong(noisy_p, labels, rates)
    order = by_posterior(wrong, noisy_p, labels)
    agrees = torch.where(labels.bool(), noisy_p, 1 - noisy_p).flatten()[torch.from_numpy(order)]
    queue = relabel_queue(train, names, wrong, order).with_columns(self_confidence=pl.Series(agrees.double().numpy()))
    counts = (~labels.isnan()).sum(0).numpy()
    estimated = pl.DataFrame({"concept": names, "cells": counts, "flip_rate": rates.double().numpy()})
    return DoubtedLabels.cast(queue), FlipRates.cast(estimated)
