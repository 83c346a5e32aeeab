from dataclasses import replace

import polars as pl
import pytest

from preflow.distil.regimes import Recipe, Regime
from preflow.distil.report import hacking_report
from preflow.distil.runs import Watch
from preflow.distil.schemas import DistilEpochs
from preflow.distil.verdicts import judged_runs
from preflow.report.blocks import Figure, Table
from preflow.report.distil import distillation
from tests.preflow.distil.test_verdicts import FALLING, curve, u_shaped

SEEDS = (0, 1, 2)
OFFLINE = Regime(name="offline", prompts=60, generations=1, updates=100, online=False, student_share=0.0)
ONLINE = replace(OFFLINE, name="online", online=True)
WATCH = Watch(control="online", false_alarm_rate=0.05, slope_share=0.75)
RECIPE = Recipe(batch_size=100, lr=1e-3, checkpoints=10)


def curves():
    """Offline golden turns, and what is trained on comes far nearer than what is held out."""
    offline = [curve(u_shaped(0.1 + 0.01 * seed), FALLING - 0.1 * seed, seed=seed) for seed in SEEDS]
    online = [curve(0.7 * FALLING, 0.7 * FALLING, "online", seed) for seed in SEEDS]
    ratio = 0.9 + 0.01 * pl.col("seed")
    fresh = [run.with_columns(train_proxy=pl.col("proxy") * ratio) for run in online]
    return pl.concat([run.with_columns(train_proxy=pl.col("proxy") * 0.3) for run in offline] + fresh)


def epochs():
    rows = [
        {"regime": name, "seed": seed, "epoch": 0, "responses": "0" * 32, "new": 1.0, "distinct_responses": 1.0}
        | {"distinct_2": 0.25, "overlap_2": 0.0}
        for name in ("offline", "online")
        for seed in SEEDS
    ]
    return DistilEpochs.cast(pl.DataFrame(rows))


def report(*, oracle=True):
    found = curves() if oracle else curves().with_columns(golden=pl.lit(None, pl.Float64))
    judged = judged_runs(found, control="online", tolerance=0.02)
    return hacking_report(
        found, epochs(), judged, [OFFLINE, ONLINE], RECIPE, WATCH, baseline="offline", prompt_cost=1.0
    )


def test_the_finding_names_what_is_hacked_what_the_alarm_says_and_the_remedy():
    section = distillation(report())
    hacked, alarmed, advised = section.finding.split(". ", 2)
    assert (hacked, alarmed) == ("Hacked: offline 3 of 3 seeds", "The alarm goes off in offline")
    assert advised.startswith("Take online: golden distance -37 %")
    regimes, remedies = (block for block in section.blocks if isinstance(block, Table))
    rows = {row[0]: row for row in regimes.rows}
    assert rows["offline"][5:7] == ["100.0%", "teacher hacking 3"]
    assert rows["online"][5:7] == ["0.0%", "none 3"]
    assert rows["offline"][8] == "0.250"
    assert remedies.rows[0][:3] == ["online", 60 * 100, 0]


@pytest.mark.parametrize("place", [0, 1])
def test_the_charts_are_drawn(place):
    figures = [block for block in distillation(report()).blocks if isinstance(block, Figure)]
    assert len(figures) == 2
    assert ("nats a response", "distance to the oracle")[place] in figures[place].svg


def test_without_an_oracle_the_section_goes_by_the_teacher():
    section = distillation(report(oracle=False))
    assert section.finding.startswith("The alarm goes off in offline.")
    assert "Hacked" not in section.finding
    regimes = next(block for block in section.blocks if isinstance(block, Table))
    assert [row[6] for row in regimes.rows] == ["no oracle", "no oracle"]
    assert len([block for block in section.blocks if isinstance(block, Figure)]) == 1
