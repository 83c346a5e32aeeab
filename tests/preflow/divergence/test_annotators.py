import numpy as np
import polars as pl
import pytest

from preflow.divergence.annotators import annotator_clusters, careful_groups, careless_annotators, group_agreement
from preflow.divergence.classes import agreement_classes
from preflow.divergence.schemas import AnnotatorClusters
from preflow.world.taste import draw_taste
from tests.preflow.feedback import content_hash, vote, votes

HOW = {"min_shared": 5, "max_p": 0.01, "permutations": 99, "seed": 0}
SEEDS = range(4)
ANNOTATORS, CARELESS = 20, 4


def world(seed, *, style=2.0, careless=0, pairs=1000):
    drawn = draw_taste(pairs, annotators=ANNOTATORS, votes=4, style=style, careless=careless, world=seed, seed=seed)
    return drawn, drawn.votes()


@pytest.mark.parametrize("seed", SEEDS)
def test_polarised_taste_is_found_and_absent_taste_is_not(seed):
    drawn, given = world(seed)
    found = annotator_clusters(given, **HOW)
    AnnotatorClusters.validate(found.clusters)
    assert (found.outcome, found.n_clusters, found.p_value) == ("clusters", 2, 0.01)
    larger = found.clusters["cluster"].to_numpy() == 0
    assert (larger == drawn.likes_style).all(), "each annotator is in the group of their taste"
    control = annotator_clusters(world(seed, style=0.0)[1], **HOW)
    assert (control.outcome, control.n_clusters) == ("no_structure", 0)
    assert control.clusters["cluster"].is_null().all()


def test_careless_annotators_are_told_from_a_minority_of_taste():
    wrong_before, wrong_after, missed = [], [], 0
    for seed in SEEDS:
        _, given = world(seed, careless=CARELESS)
        truth = given.select(pl.col("annotator").unique().sort()).collect()["annotator"].to_list()[-CARELESS:]
        groups, careless = careful_groups(given, min_agreement=0.55, **HOW)
        assert set(careless) <= set(truth), "nobody is called careless for a taste that few share"
        assert set(groups.clusters["annotator"]).isdisjoint(careless)
        missed += CARELESS - len(careless)
        pairs = given.select("pair_id").unique()
        table = agreement_classes(pairs, given, careless=careless)
        true = agreement_classes(pairs, given, careless=truth)["careful_class"]
        agreed = (true != "diverging") & (true != "too_few_votes")
        assert agreed.sum() > 300
        wrong_before.append(float((table["agreement_class"].filter(agreed) == "diverging").mean()))
        wrong_after.append(float((table["careful_class"].filter(agreed) == "diverging").mean()))
    assert missed <= 2
    assert min(wrong_before) > 0.1
    assert np.mean(wrong_after) <= 0.05


def test_a_permutation_of_the_votes_has_a_uniform_p_value():
    p = [annotator_clusters(world(seed, style=0.0, pairs=150)[1], **HOW).p_value for seed in range(10)]
    assert 0.25 < np.mean(p) < 0.75
    assert min(p) < 0.4


def test_too_few_shared_pairs():
    given = votes([vote(content_hash(str(i)), f"ann{i}{side}", side) for i in range(30) for side in "ab"])
    found = annotator_clusters(given, **HOW)
    assert (found.outcome, found.n_clusters, found.p_value) == ("too_few_shared_pairs", 0, None)
    assert found.clusters["n_contested"].to_list() == [1] * 60


def test_unanimous_votes_show_no_groups():
    given = votes([vote(content_hash(str(i)), f"ann{j}", "a") for i in range(30) for j in range(5)])
    found = annotator_clusters(given, **HOW)
    assert (found.outcome, found.clusters["n_contested"].sum()) == ("too_few_shared_pairs", 0)


def test_an_annotator_of_whom_little_is_known_is_not_careless():
    pairs = [content_hash(str(i)) for i in range(20)]
    given = [vote(pair, who, "a") for pair in pairs for who in ("x", "y")]
    given += [vote(pairs[0], "once", "b"), vote(content_hash("alone"), "alone", "b")]
    given += [vote(pair, "always b", "b") for pair in pairs]
    nobody = pl.DataFrame({"annotator": ["x", "y", "once", "alone", "always b"], "cluster": [None] * 5})
    table = group_agreement(votes(given), nobody.cast({"cluster": pl.Int64}))
    found = {row["annotator"]: (row["n_compared"], row["agreement"]) for row in table.to_dicts()}
    assert found["once"] == (1, pytest.approx(1 / 3))  # of x, y and "always b" one agrees
    assert found["alone"] == (0, None)
    assert found["always b"][1] < 0.05
    assert careless_annotators(table, min_agreement=0.3) == ["always b"]


def test_the_same_table_whatever_the_order_of_the_votes():
    _, given = world(0, pairs=200)
    one, other = (annotator_clusters(order, **HOW) for order in (given, given.reverse()))
    assert one.clusters.equals(other.clusters)
    assert one.p_value == other.p_value
