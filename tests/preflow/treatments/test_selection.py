from itertools import chain

import polars as pl
import pytest
from torch.utils.data import DataLoader

from preflow.treatments.difficulty import difficulty_scores
from preflow.treatments.reward_augmented import augment
from preflow.treatments.schemas import CARRIED, DifficultyScores, TreatedPairs, training_rows
from preflow.treatments.scores import source_scores
from preflow.treatments.selection import select_easiest, select_hardest, select_random
from preflow.world.bandit import IN_SYSTEM_TURN

MODEL = "a" * 32
PROMPT = [{"role": "user", "content": "Why?"}]


@pytest.fixture
def pairs(make_pair, make_pairs):
    """Ten pairs of one prompt."""
    return make_pairs([make_pair(PROMPT, f"a{i}", f"b{i}", score_chosen=2.0, score_rejected=1.0) for i in range(10)])


def scored(pairs, difficulty, suspicion=0.1):
    rows = pl.DataFrame({"pair_id": pairs["pair_id"], "difficulty": difficulty})
    columns = {"scored_by": pl.lit(MODEL), "spread": 0.0, "flip_suspicion": suspicion, "learned_at": 1}
    return DifficultyScores.cast(rows.with_columns(**columns))


def with_identical(pairs, n):
    same = pairs.head(n).with_columns(rejected="chosen", pair_id=pl.Series([f"{i:032x}" for i in range(n)]))
    return pl.concat([pairs, same])


@pytest.mark.claim("sdpo-11")
@pytest.mark.parametrize(("share", "kept"), [(0.29, 2), (0.5, 5), (0.7, 7), (0.99, 9), (1.0, 10)])
def test_exactly_the_floor_ties_by_id_identical_set_aside(pairs, record_claim, share, kept):
    difficulty = scored(pairs, [0.5] * 10)
    treated = select_easiest(with_identical(pairs, 3).reverse(), difficulty.reverse(), share=share, curriculum=True)
    assert training_rows(treated)["pair_id"].to_list() == sorted(pairs["pair_id"])[:kept]
    reasons = dict(treated["reason"].value_counts().iter_rows())
    assert reasons == {"easiest": kept, "identical_responses": 3} | ({"too_hard": 10 - kept} if kept < 10 else {})
    assert TreatedPairs.is_valid(treated)
    record_claim("shares .29 to 1 of 10 tied pairs: exactly the floor, by id; 3 identical pairs set aside first")


@pytest.mark.parametrize(("share", "n", "kept"), [(0.29, 100, 29), (0.57, 100, 57), (0.1, 30, 3)])
def test_the_share_counts_as_it_is_written(make_pair, make_pairs, share, n, kept):
    pairs = make_pairs([make_pair(PROMPT, f"a{i}", f"b{i}") for i in range(n)])  # 0.29 * 100 < 29 in floating point
    assert select_random(pairs, share=share, seed=0)["kept"].sum() == kept


@pytest.mark.claim("sdpo-10")
def test_pairs_of_one_prompt_keep_their_own_scores(pairs, record_claim):
    losses = [0.1 * (i + 1) for i in range(10)]
    table = pl.DataFrame({"pair_id": pairs["pair_id"], "seed": 0, "checkpoint": 1, "loss": losses})
    difficulty = difficulty_scores(table, scored_by=MODEL, learned_margin=0.0)
    assert pairs["prompt_group"].n_unique() == 1
    assert difficulty["difficulty"].n_unique() == 10
    treated = select_easiest(pairs, difficulty, share=0.3, curriculum=True)
    assert training_rows(treated)["pair_id"].to_list() == pairs["pair_id"].to_list()[:3]
    record_claim("10 pairs of one prompt, 10 scores")


@pytest.mark.claim("sdpo-9")
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_non_decreasing_difficulty(pairs, record_claim, workers):
    values = [0.7, 0.1, 0.9, 0.3, 0.5, 0.2, 0.8, 0.4, 1.0, 0.6]
    treated = select_easiest(pairs, scored(pairs, values), share=0.9, curriculum=True)
    ranked = training_rows(treated).join(scored(pairs, values), on="pair_id", maintain_order="left")
    batches = DataLoader(ranked["difficulty"].to_list(), batch_size=2, num_workers=workers, shuffle=False)
    seen = [batch.tolist() for batch in batches]
    assert [len(batch) for batch in seen] == [2, 2, 2, 2, 1]
    assert list(chain(*seen)) == sorted(values)[:9]
    record_claim(f"{len(seen)} batches in order with {workers} loader workers")


def test_no_curriculum_leaves_the_order_to_the_trainer(pairs):
    treated = select_easiest(pairs, scored(pairs, [0.5] * 10), share=0.5, curriculum=False)
    assert treated["order"].null_count() == 10
    assert treated["kept"].sum() == 5


def test_suspected_flips_are_told_from_the_hard(pairs):
    difficulty = scored(pairs, [0.1] * 6 + [0.9] * 4).with_columns(
        flip_suspicion=pl.Series([0.6] + [0.1] * 5 + [0.6, 0.4, 0.5, 0.9])
    )
    treated = select_easiest(pairs, difficulty, share=0.6, curriculum=True)
    assert treated["reason"].to_list() == ["easiest"] * 6 + ["flip_suspected", "too_hard", "too_hard", "flip_suspected"]


def test_hardest_is_the_complement_of_easiest(pairs):
    difficulty = scored(pairs, [0.5] * 4 + [0.1, 0.2, 0.3, 0.9, 0.8, 0.7])
    easy = select_easiest(pairs, difficulty, share=0.5, curriculum=True)
    hard = select_hardest(pairs, difficulty, share=0.5)
    assert hard["kept"].to_list() == (~easy["kept"]).to_list()
    assert set(hard["reason"]) == {"hardest", "too_easy"}


def test_random_control_is_the_same_for_the_same_set_and_seed(pairs):
    one = select_random(pairs, share=0.5, seed=1)
    assert one.equals(select_random(pairs.reverse(), share=0.5, seed=1))
    assert not one.equals(select_random(pairs, share=0.5, seed=2))
    assert dict(one["reason"].value_counts().iter_rows()) == {"drawn": 5, "not_drawn": 5}


def test_everything_kept_carries_its_columns_unchanged(pairs):
    rows = training_rows(select_random(pairs, share=1.0, seed=0))
    assert rows.select(CARRIED).equals(pairs.select(CARRIED))
    assert rows["source_pair_id"].equals(rows["pair_id"])


def test_selected_pairs_can_be_augmented(pairs):
    rows = training_rows(select_random(pairs, share=0.5, seed=0))
    text = IN_SYSTEM_TURN
    made = augment(rows, source_scores(pairs, attribute=text.attributes[0]), text=text, ties="drop")
    assert made["kept"].sum() == 10
    assert set(made["source_pair_id"]) == set(rows["pair_id"])


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_share_outside_its_range_is_refused(pairs, share):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        select_random(pairs, share=share, seed=0)


def test_a_share_that_keeps_nothing_is_refused(pairs):
    with pytest.raises(ValueError, match=r"a share of 0.05 of 10 pairs keeps none"):
        select_random(pairs, share=0.05, seed=0)


def test_pairs_without_a_score_do_not_vanish(pairs):
    with pytest.raises(ValueError, match="3 of 10 pairs have no difficulty"):
        select_easiest(pairs, scored(pairs, [0.5] * 10).tail(7), share=0.5, curriculum=True)


def test_a_ranking_is_one_models_own(pairs):
    other = scored(pairs, [0.5] * 10).with_columns(scored_by=pl.lit("b" * 32))
    with pytest.raises(ValueError, match="give the scores of one model, not of 2"):
        select_easiest(pairs, pl.concat([scored(pairs, [0.5] * 10), other]), share=0.5, curriculum=True)
