"""Whether the labels that triage suspects are wrong, where it is known: the stages on a world with planted flips."""

import numpy as np
import pytest

from benchmarks.flip_precision import flip_precision
from pipelines import ROOT
from pipelines.graph import Graph


def test_most_suspected_labels_are_wrong():
    found = flip_precision(prompts=500, seed=14, params=Graph(ROOT).params)
    assert found["pairs"] > 300
    assert 0.15 < found["wrong"] < 0.3
    assert found["precision"] >= 0.6


@pytest.mark.full
@pytest.mark.claim("triage-1")
def test_suspected_flips_on_seeds_that_chose_nothing(record_claim):
    params = Graph(ROOT).params
    found = [flip_precision(prompts=1_000, seed=seed, params=params) for seed in (11, 12, 13)]
    precision, wrong = (np.array([one[name] for one in found]) for name in ("precision", "wrong"))
    holds = bool(precision.min() >= 0.6)
    stated = ", ".join(f"{value:.3f}" for value in precision)
    record_claim(f"precision {stated}, of all {wrong.mean():.3f} wrong", holds=holds, seeds=3)
    assert holds
