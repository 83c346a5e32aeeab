from dataclasses import replace

import polars as pl
import pytest

from preflow.policies.readable import reading, untreated_pairs
from preflow.treatments.schemas import TreatedPairs
from preflow.world.tokenizer import world_tokenizer
from tests.preflow.policies.conftest import LIMITS, RECIPE, preferences, treated
from tests.preflow.treatments.conftest import frame, pair


def user(content):
    return [{"role": "user", "content": content}]


def read(rows, *, recipe=RECIPE, **limits):
    return untreated_pairs(frame(rows), world_tokenizer(), recipe, **LIMITS | limits)


def reasons(found):
    return dict(found.group_by("reason").len().sort("reason").rows())


GOOD = [
    pair(user(f"copy : a {letter}"), f"a {letter}", "b", split=split)
    for letter, split in zip("bcdef", ("train", "train", "train", "validation", "test"), strict=True)
]


def test_pairs_that_can_be_read_are_kept_as_they_are():
    pairs = preferences(40)
    found = treated(pairs)
    TreatedPairs.validate(found)
    assert found["kept"].all()
    assert reasons(found) == {"readable": 40}
    carried = ["pair_id", "prompt", "chosen", "rejected", "chosen_is", "score_chosen", "score_rejected", "split"]
    assert found.select(carried).equals(pairs.sort("pair_id").select(carried))
    assert (found["goal"].null_count(), found["order"].null_count()) == (40, 40)
    assert reading(found) == {
        "train": {"readable": 24},
        "validation": {"readable": 8},
        "test": {"readable": 8},
        "not_studied": None,
    }


def test_each_pair_that_cannot_be_read_has_its_reason():
    bad = {
        "unknown_words": [
            pair(user("copy : a zebra"), "a b", "b"),
            pair(user("copy : b a"), "a zebra", "b"),
            pair(user("copy : b a"), "a b", "zebra"),
        ],
        "prompt_over_limit": [pair(user("copy : " + "a " * 40), "a b", "b")],
        # Six response tokens are kept, of which both have the same; with seven they would differ.
        "identical_after_truncation": [pair(user("copy : c a"), "a a a a a a b", "a a a a a a c")],
    }
    found = read([*GOOD, *(row for rows in bad.values() for row in rows)])
    for reason, rows in bad.items():
        ids = [row["pair_id"] for row in rows]
        assert set(found.filter(pl.col("pair_id").is_in(ids))["reason"]) == {reason}
    assert reasons(found) == {reason: len(rows) for reason, rows in bad.items()} | {"readable": len(GOOD)}
    assert found.filter("kept")["pair_id"].to_list() == sorted(row["pair_id"] for row in GOOD)
    wider = read([*GOOD, *bad["identical_after_truncation"]], recipe=replace(RECIPE, max_response_tokens=7))
    assert wider["kept"].all()


def test_whole_prompt_groups_are_drawn_and_at_most_so_many_pairs():
    letters = "abcdefghijkl"
    splits = {"a": "test", "b": "validation"}
    rows = [
        pair(user(f"copy : {x} {y}"), f"{x} {y}", wrong, split=splits.get(x, "train"))
        for x in letters
        for y in letters[:5]
        for wrong in ("g", "h", "i")[: 1 + letters.index(y) % 3]
    ]
    found = read(rows, max_pairs=21)
    kept = found.filter("kept")
    by_split = dict(kept.group_by("split").len().rows())
    assert set(by_split) == {"train", "validation", "test"}
    assert max(by_split.values()) <= 21
    assert by_split["train"] >= 19, "groups have three pairs at most, so two places can be left"
    whole = found.group_by("prompt_group").agg(pl.col("kept").n_unique())
    assert whole["kept"].max() == 1
    assert found["prompt_group"].n_unique() > 50
    assert reasons(found) == {"readable": len(kept), "not_drawn": len(found) - len(kept)}
    assert read(rows[::-1], max_pairs=21).equals(found)
    other = read(rows, max_pairs=21, seed=1).filter("kept")
    assert set(other["pair_id"]) != set(kept["pair_id"])


def test_a_group_that_is_too_large_does_not_keep_the_others_out():
    large = [pair(user("copy : a a"), f"a {x}", "b") for x in "acdefghijk"]
    for seed in range(8):
        found = read([*large, *GOOD], max_pairs=5, seed=seed)
        assert sorted(found.filter("kept")["pair_id"]) == sorted(row["pair_id"] for row in GOOD)
        assert reasons(found) == {"not_drawn": 10, "readable": 5}
    alone = read([*large, *GOOD[3:]], max_pairs=5)
    assert reasons(alone) == {"too_few_readable": 12}, "without a train pair there is nothing to compare"


@pytest.mark.parametrize("without", ["train", "validation", "test"])
def test_with_too_few_pairs_of_a_split_none_is_used(without):
    rows = [row for row in GOOD if row["split"] != without]
    unknown = pair(user("copy : a zebra"), "a b", "b", split=without)
    found = read([*rows, unknown])
    assert reasons(found) == {"too_few_readable": len(rows), "unknown_words": 1}
    assert not found["kept"].any()


def test_what_is_not_studied_says_why_and_what_to_do():
    few = read(GOOD, min_pairs=4)
    assert reasons(few) == {"too_few_readable": 5}
    assert read(GOOD, min_pairs=3)["kept"].all()
    found = read([*GOOD, *(pair(user(f"zebra {n}"), "a", "b") for n in range(7))], min_pairs=4)
    told = reading(found)["not_studied"]
    assert told.startswith(
        "the start policy can read too few of 12 pairs (unknown_words 7, too_few_readable 5); name a policy"
    )
    assert "policy.start" in told
    assert "training.recipe" in told


def test_no_pairs_are_no_study():
    found = read([])
    assert found.equals(TreatedPairs.create_empty())
    assert "0 pairs (there is none)" in reading(found)["not_studied"]
