import hashlib
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import polars as pl
import pytest

from preflow.ingest.canonical import pair_id_of
from preflow.treatments.goals import GoalText
from preflow.treatments.reward_augmented import augment, un_augment
from preflow.treatments.schemas import CARRIED, PairScores, TreatedPairs, training_rows
from preflow.treatments.scores import source_scores

ATTRIBUTE = "Overall score"
PLACES = ("system", "user")


def text(place, *attributes, scale="1 (worst) to 10 (best)"):
    return GoalText(
        instruction="Aim, {scale}, for {goals}.", scale=scale, attributes=attributes or (ATTRIBUTE,), place=place
    )


def augmented(pairs, place="system", ties="drop"):
    return augment(pairs, source_scores(pairs, attribute=ATTRIBUTE), text=text(place), ties=ties)


def rows_of(treated, source_id):
    rows = treated.filter(pl.col("source_pair_id") == source_id).to_dicts()
    return {row["reason"]: row for row in rows}


def file_hash(table):
    return hashlib.sha256(json.dumps(table.to_dicts(), ensure_ascii=False).encode()).hexdigest()


def untied(pairs):
    return pairs.filter(pl.col("score_chosen") != pl.col("score_rejected"))


@pytest.mark.claim("rad-1")
@pytest.mark.parametrize("place", PLACES)
def test_two_rows_a_pair_and_the_second_swapped(scored_pairs, record_claim, place):
    pairs = untied(scored_pairs)
    treated = augmented(pairs, place)
    counts = treated.group_by("source_pair_id").len()
    assert len(treated) == 2 * len(pairs) > 0
    assert set(counts["len"]) == {2}
    assert set(counts["source_pair_id"]) == set(pairs["pair_id"])
    for source in pairs.iter_rows(named=True):
        rows = rows_of(treated, source["pair_id"])
        first, second = rows["goal_of_chosen"], rows["goal_of_rejected"]
        assert (first["chosen"], first["rejected"]) == (source["chosen"], source["rejected"])
        assert (second["chosen"], second["rejected"]) == (source["rejected"], source["chosen"])
        assert first["goal"] == [{"attribute": ATTRIBUTE, "value": source["score_chosen"]}]
        assert second["goal"] == [{"attribute": ATTRIBUTE, "value": source["score_rejected"]}]
        assert (second["score_chosen"], second["chosen_is"]) == (
            source["score_rejected"],
            "ab"[first["chosen_is"] == "a"],
        )
    record_claim(f"{len(treated)} rows of {len(pairs)} pairs, each twice and swapped, goal in the {place} turn")


@pytest.mark.claim("rad-2")
@pytest.mark.parametrize("ties", ["drop", "keep_label"])
def test_preferred_lies_nearer_to_the_goal(scored_pairs, record_claim, ties):
    treated = augmented(scored_pairs, ties=ties)
    goal = pl.col("goal").list.first().struct.field("value")
    nearer = (goal - pl.col("score_chosen")).abs() < (goal - pl.col("score_rejected")).abs()
    tied = treated.filter(pl.col("score_chosen") == pl.col("score_rejected"))
    apart = treated.join(tied, on="pair_id", how="anti")
    assert len(apart) > 0
    assert apart.select(nearer.all()).item()
    assert apart["kept"].all()
    assert len(tied) == len(scored_pairs) - len(untied(scored_pairs)) > 0
    assert set(tied["reason"]) == ({"tied_scores"} if ties == "drop" else {"goal_of_both"})
    assert set(tied["kept"]) == {ties == "keep_label"}
    record_claim(f"100 % of {len(apart)} rows; {len(tied)} ties counted with ties={ties}")


@pytest.mark.parametrize("ties", ["drop", "keep_label"])
@pytest.mark.parametrize("place", PLACES)
def test_undoing_gives_the_pairs_back(scored_pairs, place, ties):
    expected = (untied(scored_pairs) if ties == "drop" else scored_pairs).select(CARRIED)
    back = un_augment(augmented(scored_pairs, place, ties), text=text(place))
    assert back.equals(expected)
    assert file_hash(back) == file_hash(expected)


@pytest.mark.claim("rad-3")
def test_round_trip_and_any_number_of_workers(scored_pairs, record_claim):
    whole = augmented(scored_pairs)
    assert un_augment(whole, text=text("system")).equals(untied(scored_pairs).select(CARRIED))
    scores = source_scores(scored_pairs, attribute=ATTRIBUTE)
    job = partial(augment, scores=scores, text=text("system"), ties="drop")
    parts = [scored_pairs.gather_every(4, offset) for offset in range(4)]
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as workers:
        made = pl.concat(workers.map(job, parts)).sort("source_pair_id", "reason")
    shuffled = augment(
        scored_pairs.sample(fraction=1, shuffle=True, seed=1), scores.reverse(), text=text("system"), ties="drop"
    )
    assert file_hash(made) == file_hash(shuffled) == file_hash(whole)
    record_claim("byte-equal round trip; one hash with 1 and 4 workers and with rows in any order")


@pytest.mark.claim("rad-4")
def test_numbers_scale_and_missing_scores(make_pair, make_pairs, record_claim):
    prompt = [{"role": "user", "content": "Why?"}]
    values = [(9.0, 4.5), (None, 5.0), (3.0, None), (float("nan"), 1.0), (float("inf"), 1.0)]
    rows = [make_pair(prompt, f"a{i}", "b") for i in range(len(values))]
    ids = [row["pair_id"] for row in rows]
    scores = pl.DataFrame(
        {
            "pair_id": ids,
            "attribute": ATTRIBUTE,
            "score_chosen": [c for c, _ in values],
            "score_rejected": [r for _, r in values],
        }
    )
    treated = augment(make_pairs(rows), scores, text=text("system", scale="0 to 20"), ties="drop")
    said = {row["reason"]: row["prompt"][0]["content"] for row in treated.filter("kept").to_dicts()}
    assert said == {
        "goal_of_chosen": "Aim, 0 to 20, for Overall score: 9.",
        "goal_of_rejected": "Aim, 0 to 20, for Overall score: 4.5.",
    }
    refused = treated.filter(~pl.col("kept"))
    assert sorted(refused["source_pair_id"]) == sorted(ids[1:])
    assert set(refused["reason"]) == {"no_score"}
    assert refused["goal"].null_count() == 4
    record_claim("9 and 4.5; scale as configured; 4 of 4 missing or infinite scores left out with a reason")


def test_a_pair_absent_from_the_scores_is_left_out_with_a_reason(scored_pairs):
    some = scored_pairs.head(3)
    treated = augment(scored_pairs, source_scores(some, attribute=ATTRIBUTE), text=text("user"), ties="drop")
    assert (treated["reason"] == "no_score").sum() == len(scored_pairs) - 3


def test_every_pair_has_its_reason(scored_pairs):
    for ties in ("drop", "keep_label"):
        treated = augmented(scored_pairs, ties=ties)
        assert set(treated["source_pair_id"]) == set(scored_pairs["pair_id"])
        assert TreatedPairs.is_valid(treated)


def test_ids_are_those_of_the_new_texts(scored_pairs):
    rows = augmented(scored_pairs).filter("kept").to_dicts()
    assert rows
    for row in rows:
        sides = (row["chosen"], row["rejected"]) if row["chosen_is"] == "a" else (row["rejected"], row["chosen"])
        assert row["pair_id"] == pair_id_of(row["prompt"], *sides) != row["source_pair_id"]


def test_mirrored_comparisons_stay_apart(make_pair, make_pairs):
    prompt, scores = [{"role": "user", "content": "Why?"}], {"score_chosen": 2.0, "score_rejected": 1.0}
    pairs = make_pairs([make_pair(prompt, "x", "y", **scores), make_pair(prompt, "y", "x", chosen_is="b", **scores)])
    assert augmented(pairs)["pair_id"].n_unique() == 4


@pytest.mark.parametrize("place", PLACES)
def test_a_row_left_unswapped_cannot_pass_for_an_augmented_one(scored_pairs, place):
    """The official no-system code swaps the identical user turns, so its second half prefers the better answer."""
    treated = augmented(scored_pairs, place)
    second, names = pl.col("reason") == "goal_of_rejected", {"chosen": "rejected", "rejected": "chosen"}
    unswapped = treated.with_columns(
        pl.when(second).then(pl.col(b)).otherwise(pl.col(a)).alias(a) for a, b in names.items()
    )
    with pytest.raises(ValueError, match="do not undo to the pair"):
        un_augment(unswapped, text=text(place))
    flipped = {"a": "b", "b": "a"}
    side = pl.when(second).then(pl.col("chosen_is").cast(pl.String).replace(flipped)).otherwise("chosen_is")
    with pytest.raises(ValueError, match="left unswapped"):
        un_augment(unswapped.with_columns(chosen_is=side.cast(treated["chosen_is"].dtype)), text=text(place))


def test_a_half_that_went_missing_is_noticed(scored_pairs):
    treated = augmented(scored_pairs)
    first = treated.filter(pl.col("reason") == "goal_of_rejected")["pair_id"][0]
    with pytest.raises(ValueError, match="was one dropped"):
        un_augment(treated.filter(pl.col("pair_id") != first), text=text("system"))


@pytest.mark.claim("rad-11")
@pytest.mark.parametrize(("factor", "shift"), [(0.1, 0.0), (2.0, -7.0), (100.0, 3.5)])
def test_rescaled_rewards_give_the_same_rows(scored_pairs, record_claim, factor, shift):
    scores = source_scores(scored_pairs, attribute=ATTRIBUTE)
    columns = [pl.col(f"score_{side}") * factor + shift for side in ("chosen", "rejected")]
    plain, other = (
        augment(scored_pairs, s, text=text("system"), ties="drop") for s in (scores, scores.with_columns(columns))
    )
    same = ["source_pair_id", "reason", "kept", "chosen", "rejected", "chosen_is"]
    assert plain.select(same).equals(other.select(same))
    assert not plain.select("goal").equals(other.select("goal"))
    record_claim(f"the same {len(plain)} rows and labels under three affine maps")


def test_several_attributes(make_pair, make_pairs):
    prompt = [{"role": "user", "content": "Why?"}]
    rows = [make_pair(prompt, f"a{i}", "b") for i in range(4)]
    ids = [row["pair_id"] for row in rows]
    table = [  # attribute, chosen, rejected of each pair
        (ids[0], "Depth", 4.0, 2.0), (ids[0], "Honesty", 1.0, 5.0),
        (ids[1], "Depth", 3.0, 3.0), (ids[1], "Honesty", 2.0, 3.0),  # apart in one attribute: no tie
        (ids[2], "Depth", 3.0, 3.0), (ids[2], "Honesty", 2.0, 2.0),  # tied in both
        (ids[3], "Depth", 3.0, 1.0),  # no honesty score
    ]  # fmt: skip
    scores = PairScores.cast(pl.DataFrame(table, schema=PairScores.column_names(), orient="row"))
    goal_text = text("user", "Honesty", "Depth")
    treated = augment(make_pairs(rows), scores.sample(fraction=1, shuffle=True, seed=0), text=goal_text, ties="drop")
    assert [len(rows_of(treated, source)) for source in ids] == [2, 2, 1, 1]
    assert set(rows_of(treated, ids[2])) == {"tied_scores"}
    assert set(rows_of(treated, ids[3])) == {"no_score"}
    first = rows_of(treated, ids[0])["goal_of_rejected"]
    assert first["prompt"][0]["content"] == "Aim, 1 (worst) to 10 (best), for Honesty: 5, Depth: 2.\n\nWhy?"
    assert un_augment(treated, text=goal_text)["pair_id"].to_list() == sorted(ids[:2])


def test_unknown_attribute_and_policy_are_refused(scored_pairs):
    scores = source_scores(scored_pairs, attribute="Overall")
    with pytest.raises(ValueError, match=r"no pair has a score for \['Overall score'\]; scored are \['Overall'\]"):
        augment(scored_pairs, scores, text=text("user"), ties="drop")
    with pytest.raises(ValueError, match="ties='both' is unknown"):
        augmented(scored_pairs, ties="both")


def test_no_pairs_give_an_empty_table(scored_pairs):
    scores = source_scores(scored_pairs, attribute=ATTRIBUTE)
    treated = augment(scored_pairs.clear(), scores, text=text("user"), ties="drop")
    assert treated.is_empty()
    assert TreatedPairs.is_valid(treated)
    assert un_augment(treated, text=text("user")).is_empty()


def test_training_rows_leave_out_what_was_left_out(scored_pairs):
    treated = augmented(scored_pairs)
    rows = training_rows(treated)
    assert len(rows) == treated["kept"].sum() < len(treated)
    assert rows["pair_id"].is_sorted()
