import polars as pl
import pytest

from preflow.comparison.contrasts import endpoint_contrasts, policy_scores, score_contrasts
from preflow.comparison.goals import scores_by
from tests.preflow.comparison.tables import judged, judged_rows, verdicts, world

RESAMPLING = {"rounds": 2000, "seed": 0}


def contrasts_of(rows):
    contrasts, _ = score_contrasts(scores_by(rows, "gold"), **RESAMPLING)
    return {(row["treatment"], row["baseline"]): row for row in contrasts}


def test_planted_difference_is_recovered_by_its_interval():
    found = contrasts_of(world({"untreated": 0, "gold_filtered": 0.8, "hardest_share": -0.6}))
    assert len(found) == 2
    for name, effect in (("gold_filtered", 0.8), ("hardest_share", -0.6)):
        row = found[name, "untreated"]
        assert row["difference_low"] < effect < row["difference_high"]
        assert row["separable"]
        assert (row["win_rate_low"] > 0.5) == (effect > 0)
        assert (row["n_prompts"], row["n_seeds"]) == (60, 2)


def test_pairing_by_prompt_finds_what_the_spread_of_prompts_hides():
    rows = world({"untreated": 0, "gold_filtered": 0.4}, prompts=80)
    means = {row["treatment"]: row for row in policy_scores(scores_by(rows, "gold"), **RESAMPLING)}
    assert means["gold_filtered"]["mean_low"] < means["untreated"]["mean_high"]
    assert contrasts_of(rows)["gold_filtered", "untreated"]["separable"]


def test_under_the_null_few_families_have_a_separable_contrast():
    names = dict.fromkeys(("untreated", "start", "random_share", "easiest_share", "hardest_share"), 0)
    families, covered = 0, 0
    for seed in range(40):
        found = contrasts_of(world(names, prompts=24, samples=1, seed=seed))
        assert len(found) == 6
        families += any(row["separable"] for row in found.values())
        covered += sum(row["difference_low"] < 0 < row["difference_high"] for row in found.values())
    assert families <= 6  # 2 expected at most
    assert covered / 240 > 0.88  # percentile intervals of 24 prompts fall a little short of 95 %


def test_win_rate_with_ties_by_hand():
    # Two prompts, one seed, two samples: better, equal; worse, better.
    rows = judged(
        judged_rows("untreated", [[[5, 5]], [[5, 5]]]),
        judged_rows("start", [[[6, 5]], [[4, 8]]]),
    )
    [row], by_seed = score_contrasts(scores_by(rows, "gold"), **RESAMPLING)
    assert (row["wins"], row["ties"], row["losses"]) == (2, 1, 1)
    assert row["win_rate"] == (2 + 1 / 2) / 4
    assert row["difference"] == (1 + 0 - 1 + 3) / 4
    pair = {"treatment": "start", "baseline": "untreated"}
    assert by_seed == [pair | {"seed": 0, "difference": 0.75, "win_rate": 0.625}]


def test_contrasts_are_those_planned_and_every_seed_is_listed():
    names = ("untreated", "random_share", "easiest_share", "hardest_share", "reward_augmented")
    rows = scores_by(world(dict.fromkeys(names, 0) | {"reward_augmented": 1}), "gold")
    contrasts, by_seed = score_contrasts(rows, **RESAMPLING)
    against = {name: {row["treatment"] for row in contrasts if row["baseline"] == name} for name in names}
    assert against["untreated"] == set(names) - {"untreated"}
    assert against["random_share"] == {"easiest_share", "hardest_share"}
    assert against["reward_augmented"] == set()  # nothing was trained on the easiest share, augmented
    seeds = [row for row in by_seed if row["treatment"] == "reward_augmented"]
    assert [row["seed"] for row in seeds] == [0, 1]
    row = next(row for row in contrasts if row["treatment"] == "reward_augmented")
    assert row["difference"] == pytest.approx(sum(seed["difference"] for seed in seeds) / 2)


def test_length_bias_is_the_correlation_over_responses():
    long_wins = judged_rows("untreated", [[[1, 2]], [[3, 4]]], words=[[[10, 20]], [[30, 40]]])
    alike = judged_rows("start", [[[1, 2]], [[3, 4]]])
    start, untreated = policy_scores(scores_by(judged(long_wins, alike), "gold"), **RESAMPLING)
    assert untreated["spearman_words"] == pytest.approx(1)
    assert untreated["words"] == 25
    assert (untreated["mean"], untreated["n_responses"]) == (2.5, 4)
    assert start["spearman_words"] is None


def test_endpoint_has_a_win_rate_and_no_score():
    [row], [seed] = endpoint_contrasts(verdicts([1.0] * 14 + [0.5] * 6 + [0.0] * 4), **RESAMPLING)
    assert (row["wins"], row["ties"], row["losses"]) == (14, 6, 4)
    assert row["win_rate"] == seed["win_rate"] == pytest.approx(17 / 24)
    assert row["difference"] is row["difference_low"] is None
    # Sign test of 14 to 4: 2 P(X >= 14 | 18, 1/2) = 0.0309
    assert row["p_value"] == pytest.approx(0.0309, abs=0.005)


def test_verdict_given_twice_is_refused():
    rows = verdicts([1.0, 0.0])
    with pytest.raises(ValueError, match="4 verdicts say again"):
        endpoint_contrasts(pl.concat([rows, rows]), **RESAMPLING)
