"""A world of planted causes of a size for tests, and a tagger trained on it."""

import pytest

from preflow.reasons.evidence import CONTENT, JUDGEMENTS
from preflow.reasons.judgements import Carelessness
from preflow.reasons.planted import planted_pairs, training_recipe
from preflow.reasons.rules import Thresholds
from preflow.reasons.tagger import fit_tagger

RECIPE = training_recipe(1000)
CARE = Carelessness(rush_share=0.4, min_agreement=0.4)
# Chosen on seed 0; figures are from other seeds.
THRESHOLDS = Thresholds(
    length_ratio=1.8,
    format_marks=1.0,
    reading_levels=5.0,
    tone=1.0,
    fact_conflict=0.6,
    repetition=0.3,
    prompt_words=7,
    overlap=0.16,
)


def planted(recipe, seed):
    return planted_pairs(recipe, care=CARE, shrinkage=5.0, seed=seed)


def fitted(pairs, columns):
    return fit_tagger(pairs.evidence, pairs.causes, pairs.groups, columns=columns, inverse_l2=1.0, folds=5)


@pytest.fixture(scope="session")
def training():
    return planted(RECIPE, seed=0)


@pytest.fixture(scope="session")
def tagger(training):
    return fitted(training, [*CONTENT, *JUDGEMENTS])
