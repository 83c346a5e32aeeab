import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflow.audit import minhash
from preflow.audit.duplicates import contradictions, exact_clusters, near_clusters
from preflow.audit.schemas import Contradictions, DuplicateClusters
from preflow.text import normalised
from tests.preflow.feedback import argument_pairs, comparison, comparisons, vote, votes

SETTINGS = {"threshold": 0.8, "num_perm": 128, "seed": 1}


def words(rng, n):
    return [f"word{i}" for i in rng.integers(0, 5000, n)]


def planted():
    """60 unrelated comparisons; of twenty also a near copy (a word changed, sides swapped) and its near copy."""
    rng = np.random.default_rng(0)
    rows, family = [], {}
    for i in range(60):
        prompt, a, b = (words(rng, n) for n in (30, 80, 80))
        chain = [(a, b)]
        for _ in range(2 if i < 20 else 0):
            a = [*a[:40], f"changed{len(chain)}", *a[41:]]
            chain.append((b, a) if len(chain) % 2 else (a, b))
        for first, second in chain:
            rows.append(comparison(" ".join(prompt), " ".join(first), " ".join(second)))
            family[rows[-1]["pair_id"]] = i
    return comparisons(rows), family


def test_planted_near_duplicates_are_recovered_exactly():
    rows, family = planted()
    found = near_clusters(rows, **SETTINGS)
    DuplicateClusters.validate(found)
    truth = [family[pair_id] for pair_id in found["pair_id"]]
    pairs = set(zip(truth, found["near_cluster"], strict=True))
    assert len(pairs) == 60 == found["near_cluster"].n_unique()
    assert sorted(found.unique("near_cluster")["n_near"]) == [1] * 40 + [3] * 20


def test_exact_clusters_ignore_case_space_form_and_order():
    rows = [
        comparison("Name a colour", "Deep  Blue", "red"),
        comparison("name a COLOUR", "RED\n", "deep blue"),
        comparison("Name a colour", "Deep blue", "green"),
        comparison("Name a number", "deep blue", "red"),
    ]
    in_order = pl.LazyFrame({"pair_id": [row["pair_id"] for row in rows]})
    found = in_order.join(exact_clusters(comparisons(rows)), on="pair_id", maintain_order="left").collect()
    assert len(found) == len(rows)
    assert found["n_exact"].to_list() == [2, 2, 1, 1]
    assert found["exact_cluster"].to_list()[:2] == [min(row["pair_id"] for row in rows[:2])] * 2
    assert found["swapped"][0] != found["swapped"][1]


SIDE = st.text(alphabet=st.sampled_from("aAb \t\u00e9e\u0301\ufb01fi"), min_size=1, max_size=5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "q", "r"]), SIDE, SIDE), min_size=1, max_size=30, unique=True))
def test_exact_clusters_are_those_of_the_whole_normalised_texts(texts):
    rows = comparisons([comparison(*text) for text in texts])
    found = rows.join(exact_clusters(rows), on="pair_id", maintain_order="left")
    sides = found.with_columns(a=normalised(pl.col("response_a")), b=normalised(pl.col("response_b"))).collect()
    key = [(group, *sorted(pair)) for group, *pair in sides.select("prompt_group", "a", "b").iter_rows()]
    assert sides["n_exact"].to_list() == [key.count(one) for one in key]
    for cluster, one in zip(sides["exact_cluster"], key, strict=True):
        same = [pair_id for pair_id, other in zip(sides["pair_id"], key, strict=True) if other == one]
        assert cluster == min(same)
    shared = sides.filter(pl.col("n_exact") > 1)
    assert shared["swapped"].to_list() == (shared["a"] > shared["b"]).to_list()


def test_exact_duplicates_are_near_duplicates_even_when_short():
    found = near_clusters(comparisons([comparison("", "Yes", "No"), comparison("", "no ", "yes")]), **SETTINGS)
    assert found["near_cluster"].n_unique() == 1
    assert found["n_exact"].to_list() == found["n_near"].to_list() == [2, 2]


def test_a_shared_prompt_or_one_shared_response_makes_no_duplicate():
    rng = np.random.default_rng(1)
    boilerplate, answer = " ".join(words(rng, 2000)), " ".join(words(rng, 500))
    rows = [comparison(boilerplate, answer, " ".join(words(rng, 10))) for _ in range(50)]
    assert near_clusters(comparisons(rows), **SETTINGS)["n_near"].to_list() == [1] * 50


def test_arguments_that_recur_by_design_are_no_near_duplicates(shared_data):
    found = near_clusters(argument_pairs(shared_data), **SETTINGS)
    assert len(found) == 8046
    assert found["n_near"].max() == 2
    assert found.filter(pl.col("n_near") > 1).height == 216


def test_order_of_rows_changes_nothing():
    rows, _ = planted()
    shuffled = rows.collect().sample(fraction=1, shuffle=True, seed=3).lazy()
    assert near_clusters(rows, **SETTINGS).equals(near_clusters(shuffled, **SETTINGS))


def test_no_comparisons():
    assert near_clusters(comparisons([]), **SETTINGS).is_empty()


@pytest.mark.parametrize(("change", "message"), [({"threshold": 1.2}, "threshold"), ({"num_perm": 1}, "too small")])
def test_settings_that_cannot_work_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        near_clusters(comparisons([comparison("", "a", "b")]), **SETTINGS | change)


def test_estimated_similarity_is_the_jaccard_similarity():
    left = [f"w{i}" for i in range(1002)]
    right = [*left[200:], *(f"v{i}" for i in range(200))]
    rows = minhash.signatures(pl.Series([" ".join(left), " ".join(right)]), num_perm=1024, seed=0)
    assert minhash.similarity(rows[:1], rows[1:])[0] == pytest.approx(800 / 1200, abs=0.045)  # three standard errors


def test_contradictions_between_and_within():
    here, mirrored, again = (
        comparison("q", "One", "two"),
        comparison("q", "two", "one"),
        comparison("q", "one", "TWO"),
    )
    tied = comparison("q", "ONE", "TWO")
    ids = [row["pair_id"] for row in (here, mirrored, again)]
    given = votes(
        [
            *(vote(ids[0], name, "a") for name in "xyz"),
            vote(ids[0], "y", "b"),
            vote(ids[1], "x", "a"),
            vote(ids[2], "x", "a"),
            vote(tied["pair_id"], "x", "tie"),
        ]
    )
    found = contradictions(comparisons([here, mirrored, again, tied]), given)
    Contradictions.validate(found)
    between = found.filter(pl.col("kind") != "own_vote")
    assert {frozenset(pair) for pair in between.select("pair_id", "other_pair_id").iter_rows()} == {
        frozenset((ids[0], ids[1])),
        frozenset((ids[1], ids[2])),
    }
    assert set(between["kind"]) == {"mirrored"}
    own = found.filter(pl.col("kind") == "own_vote")
    assert own["pair_id"].to_list() == own["other_pair_id"].to_list() == [ids[0]]


def test_a_gold_label_contradicts_in_the_same_order():
    rows = [comparison("q", "one", "two", gold="a"), comparison("q", "One", "two", gold="b")]
    assert contradictions(comparisons(rows), votes([]))["kind"].to_list() == ["same_order"]
