"""Noisy train and validation, a test with true concepts, and apart from them the truth that only measuring may read."""

from dataclasses import dataclass

import polars as pl
from torch import Tensor

from preflow.concepts.arrays import ConceptArrays, class_names, concept_arrays


@dataclass(frozen=True)
class NoisySplits:
    """What a study learns from and measures on."""

    train: ConceptArrays
    validation: ConceptArrays
    test: ConceptArrays
    """True concepts."""
    true_train: Tensor
    """True concepts of train, [n, k]."""
    classes: int


def noisy_splits(items: pl.DataFrame, concepts: pl.DataFrame, noisy: pl.DataFrame, truth: pl.DataFrame) -> NoisySplits:
    """The splits of `ConceptItems` with `NoisyConceptLabels`, test and measuring with `TrueConceptLabels`."""
    train, validation = (concept_arrays(items, noisy, concepts, split) for split in ("train", "validation"))
    test, true_train = (concept_arrays(items, truth, concepts, split) for split in ("test", "train"))
    return NoisySplits(train, validation, test, true_train.concepts, len(class_names(items)))
