"""Effects and their intervals where the truth is known, each beside what a shortcut would say."""

from dataclasses import replace

import numpy as np
import pytest

from preflow.reward_audit.diagnostics import asymmetry, sensitivity
from preflow.reward_audit.estimators import (
    MissingRewrites,
    NotIdentified,
    Unclassified,
    effects,
)
from preflow.world.confounded import Units, World, drawn

N, SEEDS = 2000, range(100)
CONFOUNDED = World()
BAND = 1.96


def of(units):
    return effects(units.has, *units.rewards)


def over(world, seeds=SEEDS, n=N, change=lambda units: units):
    return [of(change(drawn(world, n, seed=seed))) for seed in seeds]


def bias(found, name="ate", truth=1.0):
    return float(np.mean([getattr(one, name).estimate for one in found]) - truth)


def covered(found, name="ate", truth=1.0):
    return float(np.mean([getattr(one, name).low <= truth <= getattr(one, name).high for one in found]))


def test_by_hand():
    found = effects(
        [True, True, False, False], np.array([5.0, 7, 1, 1]), np.array([2.0, 2, 3, 5]), np.array([4.0, 6, 2, 2])
    )
    assert (found.n1, found.n0) == (2, 2)
    assert (found.att.estimate, found.atu.estimate, found.ate.estimate) == (3.0, 2.0, 2.5)
    assert found.naive.estimate == 5.0
    assert found.single.estimate == pytest.approx(np.mean([3, 5, 2, 4]))
    assert found.ate.se == pytest.approx(np.std([2, 4, 1, 3], ddof=1) / 2)
    assert found.unpaired_se == pytest.approx(
        np.sqrt(np.var([4, 6, 3, 5], ddof=1) / 4 + np.var([2, 2, 2, 2], ddof=1) / 4)
    )


@pytest.mark.claim("rate-1")
def test_only_two_rewrites_are_unbiased_under_confounding(record_claim):
    found = over(replace(CONFOUNDED, z1=0.9, z0=0.1, b_z=1.0))
    rate, single, naive = (bias(found, name) for name in ("ate", "single", "naive"))
    record_claim(f"RATE {rate:+.4f}, one rewrite {single:+.4f}, naive {naive:+.3f}", seeds=len(SEEDS))
    assert abs(rate) <= 0.005
    assert abs(single + 0.1875) <= 0.01
    assert abs(naive) > 0.3


@pytest.mark.claim("rate-2")
def test_confounding_moves_one_rewrite_and_not_two(record_claim):
    free, confounded = (over(replace(CONFOUNDED, p1=p1, p0=0.05)) for p1 in (0.05, 0.8))
    rate, single = (bias(confounded, name) - bias(free, name) for name in ("ate", "single"))
    record_claim(f"RATE moves by {rate:+.4f}, one rewrite by {single:+.4f}", seeds=len(SEEDS))
    assert abs(rate) <= 0.01
    assert abs(abs(single) - 0.1875) <= 0.02


@pytest.mark.claim("rate-3")
def test_a_direction_that_touches_more_biases_and_is_flagged(record_claim):
    def flagged(world):
        units = [drawn(world, N, seed=seed) for seed in SEEDS]
        return np.mean([bool(asymmetry({"xi": sides(one)}).flagged) for one in units])

    skewed = replace(CONFOUNDED, q01=0.5, q10=0.1)
    rate, caught, false = bias(over(skewed)), flagged(skewed), flagged(CONFOUNDED)
    record_claim(
        f"bias {rate:+.3f}, flagged in {caught:.0%} of runs, a symmetric rewriter in {false:.0%}", seeds=len(SEEDS)
    )
    assert abs(rate + 0.20) <= 0.02
    assert caught == 1.0
    assert false <= 0.05


def sides(units: Units) -> np.ndarray:
    """xi of the text with the attribute and of that without, both rewrites, [n, 2]."""
    _, rewrite, double = (x.astype(float) for x in units.xi)
    return np.column_stack([np.where(units.has, double, rewrite), np.where(units.has, rewrite, double)])


def test_the_sensitivity_band_holds_the_bias():
    world = replace(CONFOUNDED, q01=0.5, q10=0.1, noise=0.1)
    for seed in range(10):
        units = drawn(world, N, seed=seed)
        xi, (_, rewrite, double) = sides(units), units.rewards
        gains = np.where(units.has, double - rewrite, rewrite - double)
        found = asymmetry({"xi": xi})
        band = sensitivity(gains, {"xi": xi}, found)
        assert band == pytest.approx(0.2, abs=0.03)
        assert abs(gains.mean() + band - 1.0) < 0.03
    assert sensitivity(gains, {"xi": xi}, asymmetry({"xi": xi[:, [0, 0]]})) == 0.0


@pytest.mark.claim("rate-4")
def test_intervals_cover(record_claim):
    found = over(replace(CONFOUNDED, noise=0.5), seeds=range(500))
    dominated = over(replace(CONFOUNDED, b_z=3.0, noise=0.1), seeds=range(20))
    ratio = float(np.mean([one.unpaired_se / one.ate.se for one in dominated]))
    rate, single = covered(found), covered(found, "single")
    record_claim(
        f"RATE covers in {rate:.1%}, one rewrite in {single:.1%} of 500 runs; unpaired errors are {ratio:.1f} times as "
        "wide",
        seeds=500,
    )
    assert 0.92 <= rate <= 0.98
    assert single <= 0.05
    assert ratio >= 2


@pytest.mark.claim("rate-5")
def test_error_falls_with_the_root_of_n_for_two_rewrites_alone(record_claim):
    def rmse(n, name):
        found = over(CONFOUNDED, n=n)
        return np.sqrt(np.mean([(getattr(one, name).estimate - 1.0) ** 2 for one in found]))

    rate, single = (rmse(1000, name) / rmse(16000, name) for name in ("ate", "single"))
    record_claim(f"RMSE at 1,000 over that at 16,000: RATE {rate:.2f}, one rewrite {single:.2f}", seeds=len(SEEDS))
    assert 3.3 <= rate <= 4.8
    assert 0.9 <= single <= 1.1


@pytest.mark.claim("rate-6")
def test_effects_that_differ_between_the_groups_are_told_apart(record_claim):
    found = over(replace(CONFOUNDED, effect_by_z=0.5, z1=0.8, z0=0.0))
    att, atu, ate = (bias(found, name, truth) for name, truth in (("att", 1.4), ("atu", 1.0), ("ate", 1.2)))
    weighed = max(
        abs(one.ate.estimate - (one.n1 * one.att.estimate + one.n0 * one.atu.estimate) / (one.n1 + one.n0))
        for one in found
    )
    record_claim(f"off by {att:+.4f} (ATT), {atu:+.4f} (ATU), {ate:+.4f} (ATE)", seeds=len(SEEDS))
    assert max(map(abs, (att, atu, ate))) <= 0.02
    assert weighed <= 1e-12


@pytest.mark.claim("rate-7")
def test_a_perfect_rewriter_and_random_attributes_leave_nothing_to_correct(record_claim):
    units = drawn(CONFOUNDED, N, seed=0)
    original = units.rewards[0]
    kept = -0.5 * np.array(units.xi[0], dtype=float)
    perfect = replace(units, rewards=(original, ~units.has + kept, units.has + kept))
    found = of(perfect)
    off = abs(found.single.estimate - found.ate.estimate)
    free = of(drawn(replace(CONFOUNDED, p1=0.1, p0=0.1, noise=0.3), N, seed=1))
    estimates = [free.naive, free.single, free.ate]
    spread = max(abs(one.estimate - 1.0) / one.se for one in estimates)
    record_claim(
        f"one rewrite and two differ by {off:.0e}; without confounding all lie within {spread:.1f} SE of the truth"
    )
    assert off <= 1e-12
    assert spread < 3


@pytest.mark.claim("rate-8")
def test_a_placebo_has_no_effect_whatever_goes_with_it(record_claim):
    found = over(replace(CONFOUNDED, effect=0.0, noise=0.3), seeds=range(500))
    quiet = np.mean([abs(one.ate.estimate / one.ate.se) < BAND for one in found])
    loud = np.mean([abs(one.naive.estimate / one.naive.se) >= BAND for one in found])
    record_claim(f"RATE is silent in {quiet:.1%} of 500 runs, the naive difference rejects in {loud:.1%}", seeds=500)
    assert 0.92 <= quiet <= 0.98
    assert loud >= 0.95


@pytest.mark.claim("rate-9")
def test_the_original_in_place_of_the_second_rewrite_fails(record_claim):
    found = over(replace(CONFOUNDED, noise=0.5), change=Units.with_original_as_double)
    record_claim(f"bias {bias(found):+.3f}, covers in {covered(found):.0%}", seeds=len(SEEDS))
    assert abs(bias(found)) > 0.1
    assert covered(found) < 0.92


@pytest.mark.claim("rate-10")
def test_what_cannot_be_known_is_refused(record_claim):
    has, one = [True, True, False, False], np.ones(4)
    for bad, error, words in (
        ((has, one, one, np.array([1, 1, np.nan, 1])), MissingRewrites, "1 of 4 responses lack"),
        (([True, None, False, False], one, one, one), Unclassified, "1 of 4 responses are unclassified"),
        (([True] * 4, one, one, one), NotIdentified, "4 responses have the attribute and 0 do not"),
    ):
        with pytest.raises(error, match=words):
            effects(*bad)
    record_claim("missing second rewrites, unclassified rows and a single group each raise an error of their own")
