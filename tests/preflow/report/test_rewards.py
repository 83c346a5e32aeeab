"""The section of rewards: every figure that it was given, and a reason for each that there is not."""

import polars as pl
import pytest

from preflow.report.blocks import MINUS, NOTHING, Table
from preflow.report.rewards import rewards
from preflow.reward_audit.schemas import RewardedAttributes

ACCURACY = {"estimate": 0.62, "low": 0.55, "high": 0.69, "unit": "cluster"}
LEANINGS = {
    "length": {
        "n": 40,
        "more": 0.7,
        "when_right": 0.6,
        "when_wrong": 0.9,
        "slope": {"estimate": 0.1, "low": 0.0, "high": 0.2},
    },
    "format": {"n": 3, "more": None},
}
UNREAD = {"read": 2, "ties": 0, "accuracy": None}


def benchmark():
    one = {"read": 90, "ties": 1, "accuracy": ACCURACY, "ece": 0.031, "leanings": LEANINGS}
    both = {"first": "baseline", "second": "judge", "n": 90, "only_first": 9, "only_second": 4, "p_value": 0.27}
    difference = both | {"estimate": 0.05, "low": -0.01, "high": 0.11, "unit": "cluster"}
    kinds = {"baseline": one | {"order_consistency": None}, "judge": one | {"order_consistency": 0.8}, "mute": UNREAD}
    rm_bench = {"n": 9, "ties": 0, "not_read": 0, "overall": 2 / 3}
    return {
        "own_pairs": {"pairs": 120, "rewards": kinds, "differences": [difference]},
        "published": {
            "refused": [{"file": "a", "line": 3, "reason": "no"}],
            "rewards": {"baseline": {"rm_bench": rm_bench}},
        },
    }


def audit():
    counts = {"n1": 50, "n0": 70, "unclassified": 0, "not_rewritten": 1, "not_scored": 0, "asymmetric": []}
    slope = {"per_doubling": 0.25, "per_doubling_low": 0.15, "per_doubling_high": 0.35}
    effect = {"ate": 0.3, "ate_low": 0.2, "ate_high": 0.4, "ate_in_sd": 0.6, "naive": 0.9, "single": 0.5}
    doubt = {"band": 0.07, "asymmetry_p": 0.001, "asymmetric": ["log_links"]}
    known = {"reward": "baseline", "attribute": "length", "identified": True, **counts, **slope, **effect, **doubt}
    unknown = {"reward": "mute", "attribute": "length", "identified": False, "reason": "0 <b>have</b> it", **counts}
    return RewardedAttributes.cast(pl.DataFrame([known, unknown], schema=RewardedAttributes.create_empty().schema))


@pytest.fixture
def section():
    return rewards(benchmark(), audit())


def test_the_finding_says_what_length_earns(section):
    assert section.finding == "The baseline reward pays +0.25 [+0.15, +0.35] per doubling of length."


def test_every_figure_is_there_and_what_is_missing_is_named(section):
    accuracies, differences, published, effects, unknown = [b for b in section.blocks if isinstance(b, Table)]
    assert accuracies.rows[0][:4] == ["baseline", 90, "0.620 [0.550, 0.690]", "0.031"]
    assert accuracies.rows[1][4] == "80.0%"
    assert set(accuracies.rows[2][2:]) == {NOTHING}
    assert differences.rows == [["baseline less judge", 90, f"0.050 [{MINUS}0.010, 0.110]", "p = 0.270"]]
    assert published.rows == [["rm bench", "baseline", 9, "0.667", 0]]
    assert "1 rows of their files were refused" in published.caption
    assert effects.rows == [["baseline", "length", 120, "0.300 [0.200, 0.400]", "0.90", "0.50", "0.07 (log_links)"]]
    assert unknown.rows == [["mute", "length", "0 <b>have</b> it"]]


def test_nothing_measured_and_nothing_audited():
    nothing = {
        "own_pairs": {"pairs": 0, "rewards": {"mute": UNREAD}, "differences": []},
        "published": {"refused": [], "rewards": {}},
    }
    section = rewards(nothing, audit()[:0])
    assert section.finding == "What a longer response earns is not identified."
