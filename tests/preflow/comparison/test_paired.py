import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest

from preflow.comparison.paired import against_baseline, paired_differences, rank_correlation, sign_flip_test, with_holm
from preflow.evaluation import mcnemar


def test_e33_two_policies_that_cannot_be_told_apart_by_mcnemar():
    # n = 358 prompts, discordant 4 to 3. RewardBench#269: with few rounds such a pair looks decided by chance.
    first = np.array([1] * 4 + [0] * 3 + [1] * 351)
    second = np.array([0] * 4 + [1] * 3 + [1] * 351)
    ps = [sign_flip_test(first - second, np.arange(358), seed=seed) for seed in range(10)]
    assert ps == [mcnemar(first, second)["p_value"]] * 10 == [1.0] * 10
    assert not with_holm([{"p_value": ps[0]}])[0]["separable"]


@pytest.mark.parametrize(("better", "worse"), [(9, 1), (7, 0), (40, 22)])
def test_sign_flip_test_of_binary_outcomes_is_mcnemars(better, worse):
    differences = np.array([1.0] * better + [-1.0] * worse + [0.0] * 100)
    p = sign_flip_test(differences, np.arange(len(differences)), seed=0)
    assert p == pytest.approx(binomtest(better, better + worse).pvalue, abs=0.01)


def test_sign_flip_test_by_hand():
    # 1, 2, 4: of the eight signings one reaches 7 and one -7.
    assert sign_flip_test(np.array([1.0, 2.0, 4.0]), np.arange(3), seed=0) == 2 / 8
    # The rows of a cluster flip together: two clusters, four signings, two as extreme.
    assert sign_flip_test(np.ones(20), np.repeat([0, 1], 10), seed=0) == 2 / 4
    assert sign_flip_test(np.zeros(5), np.arange(5), seed=0) == 1.0
    assert sign_flip_test(np.array([0.0, 3.0]), np.arange(2), seed=0) == 1.0


def test_null_is_rejected_at_the_stated_rate():
    rng = np.random.default_rng(0)
    rejected = 0
    for seed in range(400):
        rejected += sign_flip_test(rng.exponential(1, 10) * rng.choice([-1, 1], 10), np.arange(10), seed=seed) < 0.05
    # 20 expected, standard deviation 4.4
    assert 8 <= rejected <= 34


def test_holm_by_hand():
    # .01 x 3, .03 x 2, .04 x 1 and never below the one before
    records = with_holm([{"p_value": 0.04}, {"p_value": 0.01}, {"p_value": 0.03}])
    assert [record["p_adjusted"] for record in records] == pytest.approx([0.06, 0.03, 0.06])
    assert [record["separable"] for record in records] == [False, True, False]
    assert with_holm([]) == []


def values(treatment, seeds, prompts):
    rows = [(treatment, seed, f"{prompt:032x}", 0, float(prompt + seed)) for seed in seeds for prompt in prompts]
    return pl.DataFrame(rows, schema=["treatment", "seed", "prompt_group", "item", "value"], orient="row")


def test_policies_are_paired_over_the_seeds_of_both():
    both = pl.concat([values("start", [0], range(3)), values("untreated", [0, 1], range(3))])
    rows = paired_differences(both, "untreated", "start")
    assert rows["seed"].to_list() == [0, 0, 0]
    assert rows["difference"].to_list() == [0, 0, 0]


def test_policies_that_were_measured_on_different_prompts_are_refused():
    both = pl.concat([values("a", [0], range(3)), values("b", [0], range(2))])
    with pytest.raises(ValueError, match=r"1 of 3 items .* only one of a and b, first prompt 0+2 of seed 0"):
        paired_differences(both, "a", "b")
    with pytest.raises(ValueError, match="share no seed"):
        paired_differences(pl.concat([values("a", [0], range(3)), values("b", [1], range(3))]), "a", "b")


def test_missing_baseline_is_refused():
    assert against_baseline(["untreated", "b", "a"]) == [("a", "untreated"), ("b", "untreated")]
    with pytest.raises(ValueError, match="no policy 'untreated'"):
        against_baseline(["start", "random_share"])


def test_rank_correlation_of_a_constant_is_nothing():
    assert rank_correlation([1.0, 2.0, 3.0], [5.0, 7.0, 6.0]) == pytest.approx(0.5)
    assert rank_correlation([1.0, 2.0], [5.0, 5.0]) is None
