import polars as pl
import pytest

from preflow.concepts.schemas import FlipRates
from preflow.report.blocks import Figure, Numbers, Table
from preflow.report.concepts import concepts

COUNTS = {
    "items": {"train": 70, "validation": 10, "test": 20},
    "classes": 10,
    "concepts": 22,
    "cells": {"in": 2200, "kept": 2190, "refused": 10, "left_out": 0},
    "quarantine": {"value_not_binary": 10},
}
METHODS = {"bce": ("bce", 0.9), "cpo_joint, beta 0.1": ("cpo_joint", 0.93)}


def mean(value):
    return {"mean": value, "low": value - 0.01, "high": value + 0.01}


def report(p=0.001):
    measures = ("concept_auc", "task_accuracy", "memorised", "concept_ece")
    test = {"method": "cpo_joint, beta 0.1", "seeds": 5, "positive": 5, "se": 0.01, "low": 0.01, "high": 0.05}
    return {
        "methods": [
            {"method": name, "lambdas": [4.0, 8.0]} | {measure: mean(value) for measure in measures}
            for name, (_, value) in METHODS.items()
        ],
        "baseline": "bce",
        "against_baseline": [
            test | {"metric": "concept_auc", "difference": 0.03, "p_value": p / 2, "p_adjusted": p},
            test | {"metric": "memorised", "difference": 0.02, "p_value": p / 2, "p_adjusted": p},
        ],
        "front": [
            {
                "method": name, "loss": loss, "lambda": weight, "concept_auc": value + weight / 1000,
                "task_accuracy": 0.95 - weight / 1000, "on_front": name != "bce",
            }
            for name, (loss, value) in METHODS.items()
            for weight in (4.0, 8.0)
        ],
        "interventions": [
            {"method": name, "policy": policy, "corrected": n, **mean(value + n / 100)}
            for name, (_, value) in METHODS.items()
            for policy in ("random", "uncertainty", "cooperative")
            for n in range(4)
        ],
        "doubts": {
            "labels": 1540, "planted": 308, "flip_rate_error": 0.02, "queue": 0.81, "confident_learning": 0.78,
        },
    }  # fmt: skip


def rates():
    found = {"concept": ["has_loop", "even"], "cells": [70, 70], "flip_rate": [0.1, 0.3]}
    return FlipRates.cast(pl.DataFrame(found))


def test_what_differs_surely_is_the_finding():
    section = concepts(COUNTS, report(), rates())
    assert section.finding == (
        "Against bce: cpo_joint, beta 0.1 0.030 in concept AUC. Of the 308 most doubted labels 81.0% are wrong."
    )
    tables = [block for block in section.blocks if isinstance(block, Table)]
    assert [row[0] for row in tables[0].rows] == list(METHODS)
    assert tables[2].rows[0] == ["even", 70, "30.0%"], "the noisiest concept comes first"
    assert ("10", "labels refused") not in section.blocks[0].items
    assert isinstance(section.blocks[0], Numbers)
    assert (10, "labels refused") in section.blocks[0].items


def test_what_may_be_chance_is_no_finding():
    assert "no loss differs surely" in concepts(COUNTS, report(p=0.2), rates()).finding


@pytest.mark.parametrize("place", [0, 1])
def test_front_and_interventions_are_drawn(place):
    figures = [block for block in concepts(COUNTS, report(), rates()).blocks if isinstance(block, Figure)]
    assert len(figures) == 2
    assert ("concept AUC", "corrected concepts")[place] in figures[place].svg


def test_without_planted_noise_and_with_one_seed_there_is_nothing_to_test():
    found = report() | {"against_baseline": []}
    found["doubts"] |= {"planted": 0, "queue": None, "confident_learning": None}
    section = concepts(COUNTS, found, rates())
    assert section.finding == "Against bce: no loss differs surely."
