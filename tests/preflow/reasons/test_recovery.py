"""What is recovered of planted causes, and what is not found where there is nothing but chance."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import f1_score, precision_score, roc_auc_score

from preflow.evaluation import expected_calibration_error
from preflow.reasons.evidence import CONTENT
from preflow.reasons.rules import tag_by_rule
from preflow.reasons.schemas import CLASS_OF
from preflow.reasons.tagger import CARELESS
from tests.preflow.reasons.conftest import RECIPE, THRESHOLDS, fitted, planted

SEEDS = range(100, 105)
CLASSES = sorted(set(CLASS_OF.values()))
COINS = replace(RECIPE, n_pairs=600, taste=0.0, gap=0.0, careless=())
"""The same texts, whose differences nobody minds: who chooses what is chance."""


@pytest.fixture(scope="module")
def worlds():
    """Held-out pairs; fewer than the tagger was trained on, by the same number of annotators."""
    return [planted(replace(RECIPE, n_pairs=600), seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def by_tagger(tagger, worlds):
    return [labels(world, tagger.tag(world.evidence, min_probability=0.5)[0]) for world in worlds]


@pytest.fixture(scope="module")
def by_rule(worlds):
    return [labels(world, tag_by_rule(world.evidence, THRESHOLDS)[0]) for world in worlds]


def labels(world, reasons):
    """Planted and found labels of the diverging pairs, [n, 10] each."""
    ids = world.evidence.filter("diverges")["pair_id"].to_list()
    found = dict(reasons.group_by("pair_id").agg(pl.col("label").cast(pl.String)).iter_rows())
    return tuple(
        np.array([[label in of.get(i, ()) for label in CLASS_OF] for i in ids]) for of in (world.causes, found)
    )


def rolled_up(matrix):
    """[n, 4]: whether a pair has a cause of each class."""
    return np.stack([matrix[:, [of == name for of in CLASS_OF.values()]].any(1) for name in CLASSES], axis=1)


def macro_f1(truth, found):
    return f1_score(truth, found, average="macro", zero_division=0.0)


def precisions(truth, found):
    return precision_score(truth, found, average=None, zero_division=0.0)


@pytest.mark.claim("div-12")
def test_precision_on_templated_pairs(by_tagger, by_rule, record_claim):
    truth, found = (np.vstack(parts) for parts in zip(*by_tagger, strict=True))
    assert (truth.sum(0) >= 100).all()
    each, classes = precisions(truth, found), precisions(rolled_up(truth), rolled_up(found))
    rules = precisions(*(np.vstack(parts) for parts in zip(*by_rule, strict=True)))
    figure = (
        f"precision of each of 10 labels .{100 * each.min():.0f} to .{100 * each.max():.0f}, of 4 classes "
        f".{100 * classes.min():.0f} at least; thresholds alone .{100 * rules.min():.0f} at least"
    )
    holds = bool(each.min() >= 0.8 and classes.min() >= 0.8)
    record_claim(figure, holds=holds, seeds=len(SEEDS))
    assert holds, figure


def test_causes_are_recovered_on_held_out_pairs(by_tagger, by_rule):
    for truth, found in by_tagger:
        assert macro_f1(truth, found) >= 0.8
    gains = [macro_f1(*a) - macro_f1(*b) for a, b in zip(by_tagger, by_rule, strict=True)]
    assert np.mean(gains) > 0


def test_careless_votes_are_not_called_divergence(by_tagger, by_rule):
    careless = list(CLASS_OF).index(CARELESS)
    for results in (by_tagger, by_rule):
        truth, found = (np.vstack(parts) for parts in zip(*results, strict=True))
        only_careless = truth[:, careless]
        assert only_careless.sum() >= 100
        assert (~found[only_careless, careless]).mean() <= 0.05
        assert np.delete(found[only_careless], careless, axis=1).any(1).mean() <= 0.05


def test_probabilities_are_calibrated_and_chance_stays_unexplained(tagger, worlds, by_tagger):
    truth = np.vstack([one for one, _ in by_tagger])
    given = np.vstack([tagger.probabilities(world.evidence.filter("diverges")) for world in worlds])
    for head, label in enumerate(tagger.heads):
        outcome = ~truth.any(1) if label == "unexplained" else truth[:, list(CLASS_OF).index(label)]
        assert expected_calibration_error(given[:, head], outcome.astype(float), bins=10)[0] <= 0.05
    unexplained = given[:, -1]
    assert unexplained[~truth.any(1)].mean() > unexplained[truth.any(1)].mean() + 0.4


def test_pure_noise_has_no_reason(tagger, training):
    """Divergence by coin: neither the texts nor the annotators' leanings tell which pairs diverge."""
    worlds = [planted(COINS, seed) for seed in SEEDS]
    for which in (tagger, fitted(training, CONTENT)):
        found = [
            roc_auc_score(world.evidence["diverges"], 1 - which.probabilities(world.evidence)[:, -1])
            for world in worlds
        ]
        assert abs(np.mean(found) - 0.5) <= 0.05
