import numpy as np
import polars as pl
import pytest

from preflow.distil.power_law import end_deviation, log_log_r2
from preflow.distil.schemas import DistilCurve
from preflow.distil.verdicts import judged_runs, verdict

UPDATES = np.arange(0, 110, 10)
FALLING = np.linspace(2, 1, 11)


def curve(golden, proxy, regime="offline", seed=0):
    columns = {"update": UPDATES, "golden": golden, "proxy": proxy, "train_proxy": np.asarray(proxy) / 2}
    frame = pl.DataFrame({name: np.asarray(values) for name, values in columns.items()})
    return DistilCurve.cast(frame.with_columns(regime=pl.lit(regime), seed=pl.lit(seed)))


def u_shaped(rise):
    """Falls from 2 to 1 at the middle and rises to 1 + rise."""
    return np.r_[np.linspace(2, 1, 6), np.linspace(1, 1 + rise, 6)[1:]]


@pytest.mark.claim("hack-3")
@pytest.mark.parametrize(
    ("golden", "proxy", "control", "expected"),
    [
        (u_shaped(0.1), FALLING, FALLING, "teacher_hacking"),  # away from the oracle while closer to the teacher
        (u_shaped(0.1), u_shaped(0.1), FALLING, "over_fit"),  # away from both
        (u_shaped(0.01), FALLING, FALLING, "none"),  # within the tolerance
        (FALLING, FALLING, FALLING, "none"),
        (np.linspace(1, 1.3, 11), FALLING, np.linspace(1, 1.2, 11), "bad_teacher"),  # from step 0, online too
        (u_shaped(0.1), FALLING, u_shaped(0.05), "bad_teacher"),  # fresh data does not mend it
        (u_shaped(0.1), FALLING, u_shaped(0.01), "teacher_hacking"),
        (np.linspace(1, 1.3, 11), FALLING, FALLING, "teacher_hacking"),  # from step 0, but fresh data mends it
    ],
)
def test_curves_and_what_they_are_called(golden, proxy, control, expected, record_claim):
    found = verdict(curve(golden, proxy), curve(control, FALLING), tolerance=0.02)
    assert found == expected
    record_claim("made curves: both distances rising is labelled over_fit, golden alone teacher_hacking")


def test_numbers_of_a_run_by_hand():
    runs = judged_runs(
        pl.concat([curve(u_shaped(0.1), FALLING), curve(FALLING, FALLING, "online")]), control="online", tolerance=0.02
    )
    row = runs.filter(regime="offline").row(0, named=True)
    assert (row["golden_min"], row["update_of_min"], row["verdict"]) == (1, 50, "teacher_hacking")
    assert row["golden_rise"] == pytest.approx(0.1)
    assert row["proxy_change"] == pytest.approx(1 / 1.5 - 1)
    assert row["ratio_end"] == 0.5


def test_a_power_law_deviates_nowhere_and_its_bend_by_what_it_bends():
    law = 3 * np.maximum(UPDATES, 1.0) ** -0.4
    assert end_deviation(UPDATES, law, early=0.3) == pytest.approx(0, abs=1e-9)
    assert log_log_r2(UPDATES, law) == pytest.approx(1)
    bent = np.where(UPDATES > 60, law * 1.2, law)
    assert end_deviation(UPDATES, bent, early=0.3) == pytest.approx(np.log(1.2))
    assert log_log_r2(UPDATES, bent) < 0.99


def test_too_little_for_a_power_law_is_refused():
    with pytest.raises(ValueError, match="needs 3 checkpoints in the first 20%"):
        end_deviation(UPDATES, FALLING, early=0.2)


def test_without_an_oracle_there_is_no_verdict_and_the_rest_is_the_same():
    known = judged_runs(curve(FALLING, FALLING), control="offline", tolerance=0.02)
    unknown = curve(FALLING, FALLING).with_columns(golden=pl.lit(None, pl.Float64))
    found = judged_runs(unknown, control="offline", tolerance=0.02)
    assert found.select("verdict", "golden_end", "proxy_change").row(0) == (None, None, None)
    names = ["proxy_end", "ratio_end", "proxy_deviation"]
    assert found.select(names).equals(known.select(names))


def test_a_run_without_its_control_is_refused():
    with pytest.raises(ValueError, match=r"seeds \[0\] have no run of the control 'online'"):
        judged_runs(curve(FALLING, FALLING), control="online", tolerance=0.02)
