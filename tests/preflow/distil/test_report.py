import numpy as np
import polars as pl
import pytest

from preflow.distil.alarm_evaluation import alarm_evaluation, stop_evaluation
from preflow.distil.monitor import Alarm
from preflow.distil.report import curve_bands, regime_summary
from preflow.distil.verdicts import judged_runs
from tests.preflow.distil.test_verdicts import FALLING, UPDATES, curve, u_shaped

ALARM = Alarm(ratio_below=0.8, curvature_above=1.0, fresh_below=0.9, false_alarm_rate=0.05, runs=9)


def curves():
    return pl.concat(
        [curve(u_shaped(0.1 + 0.1 * seed), FALLING, seed=seed) for seed in (0, 1)]
        + [curve(FALLING, FALLING, "online", seed) for seed in (0, 1)]
    )


def test_a_summary_by_hand():
    found = regime_summary(judged_runs(curves(), control="online", tolerance=0.02), curves())
    assert list(found) == ["offline", "online"]
    assert found["offline"]["verdicts"] == {"teacher_hacking": 2, "over_fit": 0, "bad_teacher": 0, "none": 0}
    assert found["online"]["verdicts"]["none"] == 2
    rise = found["offline"]["golden_rise"]
    assert rise["estimate"] == pytest.approx(0.15)
    assert rise["high"] - rise["estimate"] == pytest.approx(12.7062 * 0.05, rel=1e-4)  # t of 1 degree, SE .05
    assert rise["unit"] == "seed"


def test_bands_are_means_over_seeds_and_leave_out_what_is_unknown():
    bands = curve_bands(curves())
    assert bands.height == 2 * 4 * len(UPDATES)
    end = bands.filter(regime="offline", distance="golden", update=100).row(0, named=True)
    assert end["mean"] == pytest.approx(1.15)
    assert end["low"] < 1.1 < 1.2 < end["high"]
    assert bands.filter(distance="ratio")["mean"].to_list() == pytest.approx([0.5] * 22)
    without = curve_bands(curves().with_columns(golden=pl.lit(None, pl.Float64)))
    assert set(without["distance"]) == {"proxy", "train_proxy", "ratio"}


def test_an_alarm_is_measured_beside_the_control():
    found = pl.DataFrame(
        {
            "regime": ["offline"] * 2 + ["online"] * 2,
            "log_ratio": np.log([0.3, 0.85, 0.9, 0.7]),
            "curvature": [0.1, 0.2, 0.0, -0.1],
            "fresh": [0.1, 0.1, 1.0, 1.0],
        }
    )
    got = alarm_evaluation(found, ALARM, control="online")
    assert got["online"] == {"runs": 2, "alarms": 0.5}
    assert got["offline"]["alarms"] == 0.5
    assert got["offline"]["auroc"] == {"log_ratio": 0.75, "curvature": 1.0, "fresh": 1.0}


def test_a_stop_is_measured_by_what_it_recovers():
    flat = np.r_[np.linspace(2, 1, 6), np.full(5, 1.0)]
    got = stop_evaluation(pl.concat([curve(u_shaped(0.5), flat), curve(flat, flat, "flat")]), ALARM, slope_share=0.5)
    assert got["offline"]["stopped"] == 1
    assert got["offline"]["avoidable"] == pytest.approx(0.5)
    assert got["offline"]["share"] == pytest.approx(got["offline"]["recovered"] / 0.5)
    assert 0 < got["offline"]["share"] < 1
    assert got["flat"]["share"] is None
