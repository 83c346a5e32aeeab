import numpy as np
import polars as pl
import pytest

from preflow.distil.advice import advice, remedy_effects
from preflow.distil.early_stopping import EarlyStop, recovered, replayed
from preflow.distil.monitor import SIGNALS, Alarm, calibrated, signals
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.schemas import DistilCurve, DistilEpochs
from preflow.distil.seed_intervals import mean_over_seeds, one_sided_bound

UPDATES = np.arange(0, 110, 10)
RECIPE = Recipe(batch_size=10, lr=1e-3, checkpoints=10)
ALARM = Alarm(ratio_below=0.8, curvature_above=1.0, fresh_below=0.9, false_alarm_rate=0.05, runs=9)


def regime(name, prompts=10, *, online=False):
    return Regime(name=name, prompts=prompts, generations=1, updates=100, online=online, student_share=0.0)


def curve(name, seed, golden=1.0, ratio_end=1.0, power=0.5, level=1.0):
    """Proxy a power law; the ratio goes straight from 1 to `ratio_end`."""
    proxy = level * np.maximum(UPDATES, 5.0) ** -power
    columns = {
        "update": UPDATES, "golden": proxy * golden if golden else np.full(11, None), "proxy": proxy,
        "train_proxy": proxy * np.linspace(1, ratio_end, 11),
    }  # fmt: skip
    frame = pl.DataFrame(columns, schema_overrides={"golden": pl.Float64})
    return DistilCurve.cast(frame.with_columns(regime=pl.lit(name), seed=pl.lit(seed)))


def epochs(name, seed, new):
    rows = [{"epoch": at, "responses": f"{at:032x}", "new": value} for at, value in enumerate(new)]
    frame = pl.DataFrame(rows).with_columns(regime=pl.lit(name), seed=pl.lit(seed))
    return DistilEpochs.cast(frame.with_columns(distinct_responses=1.0, distinct_2=0.5, overlap_2=0.0))


def test_signals_of_a_run_by_hand():
    found = signals(
        pl.concat([curve("offline", 0, ratio_end=0.5), curve("online", 0)]),
        pl.concat([epochs("offline", 0, [1.0]), epochs("online", 0, [1.0] + [0.9] * 99)]),
        [regime("offline"), regime("online", online=True)], RECIPE,
    )  # fmt: skip
    assert found["log_ratio"].to_list() == pytest.approx([np.log(0.5), 0])
    assert found["fresh"].to_list() == pytest.approx([0.01, 0.901])
    assert found["curvature"].to_list() == pytest.approx([0, 0], abs=1e-9)
    assert ALARM.raised(found).to_list() == [True, False]


def test_a_bound_is_passed_as_often_as_it_says():
    rng, rate, runs = np.random.default_rng(0), 0.05, 5
    draws = rng.normal(2, 3, size=(5_000, runs + 1))
    bounds = [one_sided_bound(row[:runs], rate=rate, upper=False) for row in draws]
    assert np.mean(draws[:, runs] < bounds) == pytest.approx(rate, abs=4 * (rate / 5_000) ** 0.5)


def test_calibration_looks_at_the_side_of_hacking():
    table = pl.DataFrame({name: np.linspace(-0.2, -0.1, 5) for name in SIGNALS})
    alarm = calibrated(table, false_alarm_rate=0.05)
    assert alarm.ratio_below < np.exp(-0.2)
    assert alarm.curvature_above > -0.1
    assert alarm.runs == 5
    strict = calibrated(table, false_alarm_rate=0.01)
    assert strict.ratio_below < alarm.ratio_below


@pytest.mark.parametrize(("values", "rate"), [([1.0, 2.0], 0.05), ([1.0, 2.0, 3.0], 0.0), ([1.0, 2.0, 3.0], 0.5)])
def test_too_few_controls_or_no_rate_are_refused(values, rate):
    with pytest.raises(ValueError, match="three control runs or more"):
        one_sided_bound(np.array(values), rate=rate, upper=False)


def test_an_interval_of_seeds_by_hand():
    found = mean_over_seeds(np.array([1.0, 2.0, 3.0]))
    assert found.estimate == 2
    assert found.high - 2 == pytest.approx(4.302653 / 3**0.5, rel=1e-5)
    with pytest.raises(ValueError, match="two finite values"):
        mean_over_seeds(np.array([1.0]))


def steps(stop, ratios, proxies):
    return [
        stop.update(10 * at, ratio * proxy, proxy)
        for at, (ratio, proxy) in enumerate(zip(ratios, proxies, strict=True), 1)
    ]


def test_it_stops_once_the_alarm_is_on_and_the_proxy_has_left_its_law():
    law = np.arange(1, 21) ** -0.5
    flat = np.r_[law[:10], np.full(10, law[9])]
    stop = EarlyStop(ratio_below=0.8, slope_share=0.7)
    said = steps(stop, np.linspace(1, 0.3, 20), flat)
    assert stop.alarmed_at == 70
    assert stop.stopped_at == 120, "three of the four checkpoints of its window lie on the flat"
    assert said == [10 * at >= 120 for at in range(1, 21)]
    assert not any(steps(EarlyStop(ratio_below=0.8, slope_share=0.7), np.ones(20), flat)), "no alarm, no stop"
    assert not any(steps(EarlyStop(ratio_below=0.8, slope_share=0.7), np.linspace(1, 0.3, 20), law)), "on its law"


def test_a_held_out_proxy_that_rises_needs_no_alarm():
    stop = EarlyStop(ratio_below=0.8, slope_share=0.7)
    assert steps(stop, np.ones(5), [1.0, 0.5, 0.52, 0.53, 0.4]) == [False, False, False, True, True]
    assert (stop.alarmed_at, stop.stopped_at) == (None, 40)


def test_a_replay_is_the_run_and_what_it_recovered_by_hand():
    run = curve("offline", 0, ratio_end=0.3)
    bent = run.with_columns(proxy=pl.Series(np.r_[run["proxy"][:6], [run["proxy"][5]] * 5]))
    bent = bent.with_columns(
        train_proxy=bent["proxy"] * np.linspace(1, 0.3, 11), golden=pl.Series(abs(UPDATES - 60) + 9.0)
    )
    at = replayed(bent, EarlyStop(ratio_below=0.8, slope_share=0.7))
    assert at == 70
    assert recovered(bent, at) == (30, 40)
    assert recovered(bent, None) == (0, 40)


def test_a_callback_that_is_misused_says_so():
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        EarlyStop(ratio_below=1.2, slope_share=0.7)
    stop = EarlyStop(ratio_below=0.8, slope_share=0.7)
    stop.update(10, 1.0, 1.0)
    with pytest.raises(ValueError, match="step 10 does not follow"):
        stop.update(10, 1.0, 1.0)
    with pytest.raises(ValueError, match="must be positive numbers"):
        stop.update(20, 1.0, float("nan"))


def measured(*, golden=1.0):
    def runs(name, factor, ratio_end):
        return [curve(name, seed, golden, ratio_end, level=factor + 0.01 * seed) for seed in range(4)]

    curves = pl.concat(
        runs("base", 1.0, 0.2) + runs("more_prompts", 0.8, 0.5) + runs("online", 0.7, 1.0) + runs("useless", 1.0, 0.2)
    )
    remedies = [regime("more_prompts", 40), regime("online", online=True), regime("useless")]
    return remedy_effects(curves, regime("base"), remedies, RECIPE, ALARM)


def test_effects_are_paired_with_the_baseline():
    table = {row["remedy"]: row for row in measured().iter_rows(named=True)}
    assert table["useless"]["golden_change"] == 0
    assert table["more_prompts"]["golden_change"] == pytest.approx(np.log(0.8), abs=0.01)
    assert (table["more_prompts"]["teacher_responses"], table["more_prompts"]["more_prompts"]) == (40, 30)
    assert (table["online"]["teacher_responses"], table["online"]["more_prompts"]) == (1000, 0)
    assert (table["online"]["alarms"], table["useless"]["alarms"]) == (0, 1)


def test_the_cheapest_remedy_that_helps_is_named():
    cheap, dear = (advice(measured(), prompt_cost=cost) for cost in (1.0, 100.0))
    assert (cheap.remedy, cheap.cost) == ("more_prompts", 70)
    assert (dear.remedy, dear.cost) == ("online", 1000)
    assert "golden distance -20 %" in cheap.text
    useless = measured().filter(pl.col("remedy") == "useless")
    assert advice(useless, prompt_cost=1.0).remedy is None


def test_without_an_oracle_the_held_out_proxy_decides():
    found = measured(golden=None)
    assert found["golden_change"].null_count() == 3
    assert "proxy distance -20 %" in advice(found, prompt_cost=1.0).text
