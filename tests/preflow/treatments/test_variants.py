from typing import get_args

import polars as pl
import pytest

from preflow.treatments.goals import GoalText
from preflow.treatments.reward_augmented import augment
from preflow.treatments.schemas import DifficultyScores, TreatedPairs, training_rows
from preflow.treatments.scores import source_scores
from preflow.treatments.selection import select_easiest
from preflow.treatments.variants import Variant, variants
from preflow.world.gold import gold_rewards
from tests.preflow.policies.conftest import of, preferences, treated
from tests.preflow.treatments.conftest import frame, pair

NAMES = get_args(Variant)
SHARE = 0.35
TEXT = GoalText(instruction="{goals}", scale="", attributes=("score",), place="system")
SHARED = {"share": SHARE, "seed": 0, "gold": gold_rewards}


def difficulty_of(rows):
    order = pl.Series("difficulty", [0.1 + (7 * i) % len(rows) / 100 for i in range(len(rows))])
    return DifficultyScores.cast(
        rows.select("pair_id", order, scored_by=pl.lit("a" * 32), spread=0.0, flip_suspicion=0.1, learned_at=1)
    )


@pytest.fixture(scope="module")
def parts():
    """untreated, selected, augmented, difficulty and pluralistic rows of 43 train pairs, some of each kind unusual.

    Ten labels are wrong, two prompts are no task of the world, one pair cannot be read, three have tied scores.
    """
    pairs = preferences(40, splits=("train",), flipped=frozenset(range(0, 40, 4)))
    tied = pl.col("pair_id").is_in(sorted(pairs["pair_id"])[:3])
    pairs = pairs.with_columns(score_chosen=pl.when(tied).then("score_rejected").otherwise("score_chosen"))
    odd = [pair([{"role": "user", "content": f"a {x}"}], "a", "b", score_chosen=2.0, score_rejected=1.0) for x in "bc"]
    unread = pair([{"role": "user", "content": "copy : a zebra"}], "a", "b", score_chosen=2.0, score_rejected=1.0)
    held = [pair([{"role": "user", "content": "copy : a"}], "a", "b", split=s) for s in ("validation", "test")]
    everything = treated(frame([*pairs.to_dicts(), *odd, unread, *held]))
    untreated = everything.filter(pl.col("split") == "train")
    kept = of(everything, "train")
    difficulty = difficulty_of(kept)
    selected = select_easiest(kept, difficulty, share=SHARE, curriculum=True)
    augmented = augment(kept, source_scores(kept, attribute="score"), text=TEXT, ties="drop")
    return untreated, selected, augmented, difficulty, pluralistic_of(everything)


def pluralistic_of(everything):
    """Every third pair has a soft label, every next one is split by group, and one of another split is there."""
    place = pl.int_range(pl.len()) % 3
    rows = everything.sort("pair_id").with_columns(
        treatment=pl.when(place == 1).then(pl.lit("pluralistic_group_0")).otherwise(pl.lit("pluralistic")),
        kept=pl.lit(value=True),
        share=pl.when(place == 0).then(0.75),
        reason=pl.when(place == 0).then(pl.lit("diverging_soft_label")).otherwise(pl.lit("preference_keep")),
    )
    return TreatedPairs.cast(rows)


@pytest.fixture(scope="module")
def made(parts):
    return variants(NAMES, *parts, **SHARED)


def rows_of(made, name):
    return made.filter(pl.col("treatment") == name)


def kept_sources(made, name):
    return set(rows_of(made, name).filter("kept")["source_pair_id"])


def test_the_parts_are_as_they_are_described(parts):
    untreated, selected, augmented, *_ = parts
    assert dict(untreated["reason"].value_counts().rows()) == {"readable": 42, "unknown_words": 1}
    assert dict(selected["reason"].value_counts().rows()) == {"easiest": 14, "too_hard": 28}
    counts = {"goal_of_chosen": 39, "goal_of_rejected": 39, "tied_scores": 3}
    assert dict(augmented["reason"].value_counts().rows()) == counts


def test_every_treatment_is_there_in_the_order_asked_and_keys_are_unique(parts, made):
    TreatedPairs.validate(made)
    assert made["treatment"].unique(maintain_order=True).to_list() == list(NAMES)
    assert made.n_unique(["treatment", "pair_id"]) == len(made)
    assert set(made["split"]) == {"train"}
    two = variants(["easiest_share", "untreated"], *parts, **SHARED)
    assert two["treatment"].unique(maintain_order=True).to_list() == ["easiest_share", "untreated"]


def test_untreated_selected_and_augmented_rows_are_passed_on(parts, made):
    for name, part in zip(("untreated", "easiest_share", "reward_augmented"), parts[:3], strict=True):
        assert rows_of(made, name).drop("treatment").equals(part.drop("treatment")), name


def test_label_smoothed_is_trained_on_the_rows_of_untreated(made):
    one, other = (rows_of(made, name).drop("treatment") for name in ("untreated", "label_smoothed"))
    assert one.equals(other)
    assert len(one) == 43


def test_the_controls_have_the_size_of_the_selection(made):
    sizes = {name: rows_of(made, name)["kept"].sum() for name in ("easiest_share", "random_share", "hardest_share")}
    assert sizes == dict.fromkeys(sizes, 14)
    easiest, random, hardest = (kept_sources(made, name) for name in sizes)
    assert easiest & hardest == set()
    assert random not in (easiest, hardest)
    assert (easiest | random | hardest) <= kept_sources(made, "untreated")


def test_the_hardest_are_harder_than_all_others(parts, made):
    difficulty = dict(parts[3].select("pair_id", "difficulty").iter_rows())
    hardest, easiest = kept_sources(made, "hardest_share"), kept_sources(made, "easiest_share")
    rest = set(difficulty) - hardest
    assert min(difficulty[i] for i in hardest) > max(difficulty[i] for i in rest)
    assert max(difficulty[i] for i in easiest) < min(difficulty[i] for i in set(difficulty) - easiest)


def test_both_treatments_together_hold_exactly_the_augmented_rows_of_selected_pairs(parts, made):
    _, selected, augmented, *_ = parts
    chosen = set(selected.filter("kept")["pair_id"])
    both = rows_of(made, "easiest_share_augmented")
    expected = augmented.filter(pl.col("kept") & pl.col("source_pair_id").is_in(chosen))
    kept = both.filter("kept")
    assert kept.drop("treatment").sort("pair_id").equals(expected.drop("treatment").sort("pair_id"))
    assert 0 < len(kept) == 2 * kept["source_pair_id"].n_unique()
    assert len(both) == len(augmented), "every other row is there, with a reason"
    left = both.filter(~pl.col("kept"))
    by_selection = left["source_pair_id"].is_in(chosen).not_() & (left["reason"] != "tied_scores")
    assert set(left.filter(by_selection)["reason"]) == {"too_hard"}
    assert left.filter(reason="tied_scores").height == 3


def test_gold_filtered_keeps_exactly_what_is_rightly_labelled(made):
    rows = rows_of(made, "gold_filtered")
    rewards = [gold_rewards(rows["prompt"], rows[side]) for side in ("chosen", "rejected")]
    by_hand = [
        "no_gold" if chosen is None else "right_label" if chosen > rejected else "wrong_label"
        for chosen, rejected in zip(*rewards, strict=True)
    ]
    assert rows["reason"].to_list() == by_hand
    assert dict(rows["reason"].value_counts().rows()) == {"right_label": 30, "wrong_label": 10, "no_gold": 2}
    assert rows["kept"].to_list() == [reason == "right_label" for reason in by_hand]


def test_pluralistic_has_the_shares_and_leaves_out_what_cannot_be_read(parts, made):
    untreated, pluralistic, rows = parts[0], parts[4], rows_of(made, "pluralistic")
    one_label = pluralistic.filter(treatment="pluralistic", split="train").sort("pair_id")
    assert rows["pair_id"].to_list() == one_label["pair_id"].to_list()
    readable = set(untreated.filter("kept")["pair_id"])
    assert kept_sources(made, "pluralistic") == set(one_label["pair_id"]) & readable
    assert rows.filter("kept")["share"].drop_nulls().unique().to_list() == [0.75]
    assert 0 < rows.filter("kept")["share"].null_count() < len(rows)
    left = rows.filter(~pl.col("kept"))
    assert left.select("reason", "share").rows() == [("unknown_words", None)] * (
        len(rows) - len(kept_sources(made, "pluralistic"))
    )
    others = made.filter(pl.col("treatment") != "pluralistic")
    assert others["share"].null_count() == len(others) > 0, "all other treatments have hard labels"


def test_equal_rewards_are_no_right_label(parts):
    def flat(prompts, responses):
        return pl.Series([5.0] * len(responses))

    made = variants(["gold_filtered"], *parts, **SHARED | {"gold": flat})
    assert set(made["reason"]) == {"wrong_label"}
    assert made["kept"].sum() == 0


def test_the_order_of_rows_and_of_names_changes_no_training(parts, made):
    shuffled = [part.sample(fraction=1, shuffle=True, seed=2) for part in parts]
    other = variants(NAMES[::-1], *shuffled, **SHARED)
    assert len(made) > 0
    for name in NAMES:
        assert training_rows(rows_of(other, name)).equals(training_rows(rows_of(made, name))), name


def test_only_the_random_share_depends_on_the_seed(parts, made):
    other = variants(NAMES, *parts, **SHARED | {"seed": 1})
    differing = [name for name in NAMES if not rows_of(other, name).equals(rows_of(made, name))]
    assert differing == ["random_share"]


def test_nothing_to_select_from_is_an_empty_table(parts):
    empty = [part.clear() for part in parts]
    refused = parts[0].with_columns(kept=pl.lit(value=False), reason=pl.lit("too_few_readable"))
    for given, share in ((empty, None), (empty, 0.5), ([refused, *empty[1:]], None)):
        assert variants(NAMES, *given, **SHARED | {"share": share}).equals(TreatedPairs.create_empty())
