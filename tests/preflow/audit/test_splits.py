import networkx as nx
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflow.audit.duplicates import near_clusters
from preflow.audit.schemas import Splits
from preflow.audit.splits import leakage, split_by_group
from tests.preflow.feedback import argument_pairs, comparison, comparisons

TENTHS = {"validation_fraction": 0.1, "test_fraction": 0.1, "seed": 0}


def name(i):
    return f"{i:032x}"


def grouped(membership):
    """Comparisons and clusters from (prompt group, near cluster) numbers."""
    rows = [comparison("q", f"a{i}", f"b{i}", prompt_group=name(group)) for i, (group, _) in enumerate(membership)]
    cluster = [name(number) for _, number in membership]
    clusters = pl.LazyFrame(
        {"pair_id": [row["pair_id"] for row in rows], "near_cluster": cluster, "exact_cluster": cluster}
    )
    return comparisons(rows), clusters


def independent_groups(membership):
    graph = nx.Graph((("group", group), ("cluster", cluster)) for group, cluster in membership)
    return nx.number_connected_components(graph)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), min_size=1, max_size=80),
    st.floats(0, 0.45),
    st.floats(0, 0.45),
    st.integers(0, 5),
)
def test_no_group_is_ever_divided(membership, validation, test, seed):
    rows, clusters = grouped(membership)
    fractions = {"validation_fraction": validation, "test_fraction": test, "seed": seed}
    filled = {"train"} | {part for part, share in (("validation", validation), ("test", test)) if share > 0}
    if independent_groups(membership) < len(filled):
        with pytest.raises(ValueError, match="cannot fill"):
            split_by_group(rows, clusters, **fractions)
        return
    found = split_by_group(rows, clusters, **fractions)
    Splits.validate(found)
    counts = leakage(rows, clusters, found.lazy())
    assert (counts["prompt_groups"], counts["near_clusters"], counts["exact_clusters"]) == (0, 0, 0)
    assert set(found["split"]) == filled
    assert found.equals(split_by_group(rows.reverse(), clusters, **fractions))


def test_many_single_groups_meet_the_fractions():
    rows, clusters = grouped([(i, i) for i in range(1000)])
    counts = dict(split_by_group(rows, clusters, **TENTHS)["split"].value_counts().iter_rows())
    assert counts == {"train": 800, "validation": 100, "test": 100}


def test_three_groups_of_any_size_fill_three_splits():
    rows, clusters = grouped([(0, 0)] * 1 + [(1, 1)] * 5 + [(2, 2)] * 90)
    assert set(split_by_group(rows, clusters, validation_fraction=0.3, test_fraction=0.6, seed=0)["split"]) == {
        "train",
        "validation",
        "test",
    }


def test_too_few_groups_are_refused():
    rows, clusters = grouped([(0, 0), (1, 1), (1, 0), (2, 2)])
    with pytest.raises(ValueError, match="2 independent groups"):
        split_by_group(rows, clusters, **TENTHS)


def test_fractions_that_leave_no_train_are_refused():
    rows, clusters = grouped([(i, i) for i in range(9)])
    with pytest.raises(ValueError, match="less than 1"):
        split_by_group(rows, clusters, validation_fraction=0.5, test_fraction=0.5, seed=0)


def test_a_comparison_without_a_cluster_is_refused():
    rows, clusters = grouped([(i, i) for i in range(9)])
    with pytest.raises(ValueError, match="1 comparisons have no cluster"):
        split_by_group(rows, clusters.head(8), **TENTHS)


def test_leakage_is_counted():
    rows, clusters = grouped([(0, 0), (0, 1), (1, 2), (2, 2)])
    ids = rows.select("pair_id").collect().to_series()
    careless = pl.LazyFrame({"pair_id": ids, "split": ["train", "test", "train", "test"]})
    assert leakage(rows, clusters, careless) == {
        "prompt_groups": 1,
        "exact_clusters": 1,
        "near_clusters": 1,
        "responses": 0,
    }


def test_sixteen_debates_fill_three_splits_without_leaking_an_argument(shared_data):
    rows = argument_pairs(shared_data)
    clusters = near_clusters(rows, threshold=0.8, num_perm=128, seed=1).lazy()
    found = split_by_group(rows, clusters, **TENTHS)
    assert set(leakage(rows, clusters, found.lazy()).values()) == {0}
    shares = {part: n / len(found) for part, n in found["split"].value_counts().iter_rows()}
    assert 0.05 < shares["validation"] < 0.15
    assert 0.05 < shares["test"] < 0.15
