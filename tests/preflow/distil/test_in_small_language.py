"""Teacher hacking where the oracle is known: the reduced form on two seeds, the study's with --full (minutes)."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
import torch
from scipy.stats import t, ttest_rel

from benchmarks import teacher_hacking as study
from preflow.distil.early_stopping import EarlyStop, recovered, replayed
from preflow.distil.runs import Study, Watch
from preflow.distil.seeded import Seeded
from preflow.distil.small_language import FineTuning, Sizes, SmallLanguage, split_of
from preflow.distil.verdicts import judged_runs

REDUCED = (0, 1)
RECIPE = replace(study.RECIPE, checkpoints=15)
ONLINE = (study.ONLINE.name, "online_student")


@cache
def reduced():
    """Curves of two seeds: offline on 60 prompts with 1 and 3 responses, on 200, and online."""
    torch.set_num_threads(1)
    names = ("offline_60", "offline_60x3", "offline_200", "online_teacher")
    curves = []
    for seed in REDUCED:
        made = replace(study.made(seed, replace(study.SIZES, validation=300)), recipe=RECIPE)
        curves += [made.run(one, seed=seed).curve for one in study.ALARMED if one.name in names]
    return pl.concat(curves)


@cache
def of_seed(seed):
    """Curves and epochs of a seed of the study, trained anew."""
    torch.set_num_threads(1)
    curves, epochs = zip(*study.trained(seed), strict=True)
    return pl.concat(curves), pl.concat(epochs)


def full(seeds):
    """Curves and epochs of seeds."""
    curves, epochs = zip(*map(of_seed, seeds), strict=True)
    return pl.concat(curves), pl.concat(epochs)


def judged(curves):
    """Runs without the ablations and controls, whose teachers are others."""
    return judged_runs(curves.filter(~pl.col("regime").str.contains(", ")), control=study.ONLINE.name, tolerance=0.02)


def of(runs, regime, column):
    """A column of a regime's runs, by seed."""
    return runs.filter(pl.col("regime") == regime).sort("seed")[column].to_numpy()


def detectable(gaps, level=0.05):
    """The mean difference that a one-sided test at this level finds in four of five studies of this size."""
    n, se = len(gaps), gaps.std(ddof=1) / len(gaps) ** 0.5
    return (t.ppf(1 - level, n - 1) + t.ppf(0.8, n - 1)) * se


def test_offline_data_is_hacked_and_fresh_or_more_responses_are_not():
    """The reduced form of hack-2 to hack-6, hack-8 and hack-9."""
    runs = judged(reduced())
    assert runs.height == 8
    rise = {name: of(runs, name, "golden_rise") for name in runs["regime"].unique()}
    assert set(runs.filter(pl.col("regime") == "offline_60")["verdict"]) == {"teacher_hacking"}
    assert rise["offline_60"].mean() > 0.03
    assert rise["online_teacher"].max() < 0.02
    assert rise["offline_60x3"].max() < 0.02
    end = {name: of(runs, name, "golden_end") for name in rise}
    assert (end["online_teacher"] < 0.85 * end["offline_60"]).all()
    assert (end["offline_60x3"] < end["offline_60"]).all()
    assert (end["offline_200"] < end["offline_60"]).all()
    assert of(runs, "offline_60", "golden_deviation").min() > 0.08
    assert of(runs, "online_teacher", "golden_deviation").max() < 0.04
    assert of(runs, "offline_60", "ratio_end").max() < 0.2
    assert of(runs, "online_teacher", "ratio_end").min() > 0.7


def test_stopping_recovers_most_of_the_rise_and_leaves_online_runs_alone():
    """The reduced form of hack-10, at a bound like that of the study's calibration."""
    parts = reduced().partition_by("regime", "seed", as_dict=True)
    stops = {
        key: replayed(run, EarlyStop(ratio_below=0.75, slope_share=study.SLOPE_SHARE)) for key, run in parts.items()
    }
    gained, avoidable = np.array([recovered(run, stops[key]) for key, run in parts.items() if key[0] == "offline_60"]).T
    assert gained.sum() > 0.5 * avoidable.sum() > 0
    assert [stop for (regime, _), stop in stops.items() if regime == "online_teacher"] == [None] * 2


TUNING = FineTuning(width=8, epochs=2, batch_size=20, lr=1e-2)
TINY = SmallLanguage(
    language=study.LANGUAGE, oracle_width=16, embedding=8, teacher_tuning=TUNING, student_tuning=TUNING,
    sizes=Sizes(oracle=60, distillation=20, validation=40),
)  # fmt: skip


@pytest.fixture(scope="module")
def tiny():
    """Made in a second; its numbers mean nothing."""
    oracle = TINY.oracle([4])
    data = TINY.data(oracle, [4])
    models = {"teacher": TINY.teacher(data), "student": TINY.student(data)}
    return Study(family=TINY, data=data, oracle=oracle, recipe=RECIPE, **models)


def test_every_step_repeats_to_the_same_numbers(tiny):
    assert TINY.data(tiny.oracle, [4]).equals(tiny.data)
    pairs = zip(tiny.teacher[4].parameters(), TINY.teacher(tiny.data)[4].parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


def test_splits_share_no_prompt_and_teacher_and_student_no_start(tiny):
    data = tiny.data
    assert data["prompt"].n_unique() == data.height == 120
    assert not torch.equal(tiny.teacher[4].tokens.weight, tiny.student[4].tokens.weight)
    wider = replace(TINY, sizes=replace(TINY.sizes, distillation=90)).data(tiny.oracle, [4])
    assert wider.filter(split="validation").equals(data.filter(split="validation"))
    with pytest.raises(ValueError, match="no oracle prompts of seed 5"):
        split_of(data, 5, "oracle")


def test_the_numbers_of_a_table_are_those_that_were_drawn(tiny):
    """To the bit: what is text in the table are the float32 of the prompt that the oracle answered."""
    prompts = TINY.prompts(tiny.data, seed=4, split="validation")
    assert prompts.dtype == torch.float32
    drawn = TINY.data(tiny.oracle, [4]).filter(split="validation", row=3)["prompt"][0]
    assert drawn == str(prompts[3].tolist())


@pytest.mark.claim("hack-12")
def test_with_the_oracle_as_teacher_golden_and_proxy_are_one_curve(tiny, record_claim):
    regime = replace(study.BASELINE, prompts=20, updates=60)
    curve = replace(tiny, teacher=tiny.oracle).run(regime, seed=4).curve
    assert curve["golden"].to_list() == curve["proxy"].to_list()
    rising = curve.with_columns(golden=pl.col("proxy"), regime=pl.lit("online"))
    runs = judged_runs(pl.concat([curve, rising]), control="online", tolerance=0.0)
    assert "teacher_hacking" not in runs["verdict"].to_list()
    record_claim("the two curves are equal to the bit, whatever the responses, so the joint event cannot be")


def test_runs_of_all_seeds_stop_at_the_alarm_of_the_control_and_need_no_oracle(tiny):
    seeds, family = [4, 5, 6], TINY
    oracle = family.oracle(seeds)
    data = family.data(oracle, seeds)
    models = {"teacher": family.teacher(data), "student": family.student(data)}
    with_oracle = Study(family=family, data=data, oracle=oracle, recipe=RECIPE, **models)
    without = replace(with_oracle, oracle=Seeded({}))
    offline, online = (replace(one, prompts=20, updates=60) for one in (study.BASELINE, study.ONLINE))
    watch = Watch(control=online.name, false_alarm_rate=0.05, slope_share=0.9)
    runs = with_oracle.runs([offline, online], watch, stop=False)
    assert len(runs.curves) == 2 * 3 * 16
    assert set(runs.students.models) == {offline.name, online.name}
    blind = without.runs([offline, online], watch, stop=False)
    assert blind.curves["golden"].null_count() == len(blind.curves)
    assert blind.curves.drop("golden").equals(runs.curves.drop("golden")), "the oracle only measures"
    assert blind.epochs.equals(runs.epochs)
    stopped = without.runs([offline, online], watch, stop=True).curves
    assert stopped.filter(regime=online.name).equals(blind.curves.filter(regime=online.name))
    alarm = watch.alarm(blind.curves, blind.epochs, [offline, online], RECIPE)
    for seed in seeds:
        whole, cut = (table.filter(regime=offline.name, seed=seed) for table in (blind.curves, stopped))
        at = replayed(whole, watch.monitor(alarm)) or 60
        assert cut.equals(whole.filter(pl.col("update") <= at))
    with pytest.raises(ValueError, match="the control 'fresh' is none of"):
        without.runs([offline, online], replace(watch, control="fresh"), stop=False)


@pytest.mark.full
@pytest.mark.claim("hack-2")
@pytest.mark.claim("hack-3")
def test_offline_runs_hack(record_claim):
    runs = judged(full(study.SEEDS)[0]).filter(pl.col("regime") == "offline_60")
    rise, change = of(runs, "offline_60", "golden_rise"), of(runs, "offline_60", "proxy_change")
    holds = (rise >= 0.02).mean() >= 0.8 and rise.mean() >= 0.04 and (change < 0).mean() >= 0.8
    record_claim(
        f"golden rises by {percent(rise)} %, mean {100 * rise.mean():.1f}; proxy over that span {percent(change)} %",
        holds=bool(holds), seeds=len(rise),
    )  # fmt: skip
    assert holds


def percent(values):
    return ", ".join(f"{100 * value:.1f}" for value in values)


@pytest.mark.full
@pytest.mark.claim("hack-4")
@pytest.mark.claim("hack-5")
def test_online_runs_do_not(record_claim):
    runs = judged(full(study.SEEDS)[0])
    base, base_end = of(runs, "offline_60", "golden_rise"), of(runs, "offline_60", "golden_end")
    parts, holds = [], True
    for name in ONLINE:
        rise, share = of(runs, name, "golden_rise"), of(runs, name, "golden_end").mean() / base_end.mean()
        p, gaps = ttest_rel(base, rise, alternative="greater").pvalue, base - rise
        holds = holds and rise.max() <= 0.02 and p < 0.05 and share <= 0.85
        parts.append(
            f"{name} {percent(rise)} %, {100 * gaps.mean():.1f} below offline (SE "
            f"{100 * gaps.std(ddof=1) / len(gaps) ** 0.5:.1f}, p {p:.1g}, detectable {100 * detectable(gaps):.1f}), "
            f"final golden {share:.2f} of offline"
        )
    record_claim("; ".join(parts), holds=bool(holds), seeds=len(base))
    assert holds


@pytest.mark.full
@pytest.mark.claim("hack-6")
@pytest.mark.claim("hack-7")
@pytest.mark.claim("hack-8")
def test_more_diverse_data_hacks_less(record_claim):
    runs = judged(full(study.SEEDS)[0])
    end = {name: of(runs, name, "golden_end") for name in runs["regime"].unique()}
    rise = of(runs, "offline_60x3", "golden_rise")
    more, prompts = (end["offline_60x3"] < end["offline_60"]).sum(), (end["offline_40x5"] > end["offline_200"]).sum()
    means = [end[name].mean() for name in ("offline_60", "offline_100", "offline_200")]
    holds = rise.max() <= 0.01 and more == len(rise) and prompts >= 4 and means == sorted(means, reverse=True)
    record_claim(
        f"60 x 3 rises by {percent(rise)} % and ends below 60 x 1 in {more} of {len(rise)} seeds; 40 x 5 ends above "
        f"200 x 1 in {prompts}; 60, 100, 200 prompts end at {', '.join(f'{mean:.2f}' for mean in means)}",
        holds=bool(holds), seeds=len(rise),
    )  # fmt: skip
    assert more == len(rise)
    assert prompts >= 4
    assert means == sorted(means, reverse=True)


@cache
def alarmed():
    """The alarm of ten online runs, and what it and the stop do on ten held-out runs of each regime."""
    return study.held_out_alarm(full(study.SEEDS + study.CALIBRATION), full(study.HELD_OUT))


@pytest.mark.full
@pytest.mark.claim("hack-9")
def test_the_power_law_and_the_ratio_tell_offline_from_online_runs(record_claim):
    runs, (alarm, alarms, _) = judged(full(study.SEEDS)[0]), alarmed()
    offline, online = (of(runs, name, "golden_deviation") for name in ("offline_60", "online_teacher"))
    ratio, control = (of(runs, name, "ratio_end") for name in ("offline_60", "online_teacher"))
    scores = [alarms["offline_60"]["auroc"][name] for name in ("log_ratio", "golden_deviation")]
    false = max(alarms[name]["alarms"] for name in (*ONLINE, "mixture"))
    separated = offline.min() >= 0.08 and online.max() <= 0.04 and min(scores) >= 0.9 and false <= 0.05
    record_claim(
        f"golden ends {offline.min():.3f} to {offline.max():.3f} off its law offline, {online.min():.3f} to "
        f"{online.max():.3f} online; ratio at the end {ratio.min():.2f} to {ratio.max():.2f} offline, "
        f"{control.min():.2f} to {control.max():.2f} (mean {control.mean():.2f}) online, above .8 in "
        f"{(control > 0.8).sum()} of {len(control)}: 60 prompts are fitted too; on "
        f"{alarms['offline_60']['runs']} held-out runs each AUROC "
        f"{scores[0]:.2f} of the ratio and {scores[1]:.2f} of the law, an alarm below {alarm.ratio_below:.2f} in "
        f"{alarms['offline_60']['alarms']:.0%} of offline and at most {false:.0%} of online runs",
        holds=bool(separated and ratio.max() < 0.6 and control.min() > 0.8), seeds=len(study.HELD_OUT),
    )  # fmt: skip
    assert separated
    assert ratio.max() < 0.6 < control.min()
    assert control.mean() > 0.8


@pytest.mark.full
@pytest.mark.claim("hack-10")
def test_stopping_at_the_alarm_recovers_most_of_the_rise(record_claim):
    _, _, stops = alarmed()
    found, online = stops["offline_60"], [stops[name]["stopped"] for name in (*ONLINE, "mixture")]
    mild = min(stops[name]["recovered"] for name in ("offline_200", "offline_60x3", "offline_40x5"))
    record_claim(
        f"{found['share']:.0%} of {found['avoidable']:.3f} nats over {found['runs']} held-out runs on 60 prompts, "
        f"{stops['offline_100']['share']:.0%} of {stops['offline_100']['avoidable']:.3f} on 100; {sum(online)} of 30 "
        f"online runs stopped; where next to nothing is avoidable it changes golden by {-mild:+.3f} nats at most",
        holds=found["share"] >= 0.7, seeds=found["runs"],
    )  # fmt: skip
    assert found["share"] >= 0.7
    assert sum(online) == 0
    assert mild > -0.02


@pytest.mark.full
@pytest.mark.claim("hack-12")
def test_with_the_oracle_as_teacher_nothing_is_hacked_but_the_ratio_alarm_goes_off(record_claim):
    """The ratio says that responses are memorised, not that the teacher is wrong: that only an oracle can say."""
    curves = full(study.SEEDS)[0].filter(pl.col("regime").str.ends_with(study.ORACLE_TEACHES))
    assert curves["golden"].to_list() == curves["proxy"].to_list()
    runs, bound = judged_runs(curves, control=f"online_teacher{study.ORACLE_TEACHES}", tolerance=0.02), alarmed()[0]
    offline = runs.filter(pl.col("regime").str.starts_with("offline"))
    assert runs.height == 2 * offline.height == 2 * len(study.SEEDS)
    assert "teacher_hacking" not in runs["verdict"].to_list()
    raised = (offline["ratio_end"] < bound.ratio_below).sum()
    online = runs.filter(pl.col("regime").str.starts_with("online"))["ratio_end"].min()
    record_claim(
        f"equal to the bit in {runs.height} runs, the joint event in none; but offline the ratio alarm goes off in "
        f"{raised} of {len(offline)} (online the ratio ends at {online:.2f} or more): it sees memorising, not what the "
        "teacher lacks",
        seeds=len(offline),
    )  # fmt: skip
    assert raised == len(offline)
