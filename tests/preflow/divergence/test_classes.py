from itertools import product

import polars as pl
import pytest

from preflow.divergence.classes import agreement_classes, class_counts
from preflow.divergence.schemas import CLASSES, AgreementClasses
from tests.preflow.feedback import comparison, comparisons, content_hash, vote, votes

STATES = [("a", 2), ("a", 1), ("a", None), ("tie", None), ("b", None), ("b", 1), ("b", 2)]
SWAP = {"a": "b", "b": "a", "tie": "tie", None: None}


def classified(panels, careless=()):
    """Classes of pairs in order, each voted on by annotators 0, 1, ... as (choice, strength)."""
    pairs = [comparison(f"prompt {i}", "one", "two", pair_id=f"{i:032x}") for i in range(len(panels))]
    given = [
        vote(f"{i:032x}", f"ann{j}", choice, strength=strength)
        for i, panel in enumerate(panels)
        for j, (choice, strength) in enumerate(panel)
    ]
    return AgreementClasses.validate(agreement_classes(comparisons(pairs), votes(given), careless=careless))


def mirrored(panel):
    return [(SWAP[choice], strength) for choice, strength in panel]


A, B, T = ("a", None), ("b", None), ("tie", None)


@pytest.mark.parametrize(
    ("panel", "label", "preferred", "substantial"),
    [
        ([], "too_few_votes", None, False),
        ([A], "too_few_votes", None, False),
        ([A, A, A], "preference", "a", False),  # E23: unanimous
        ([B, A, B], "diverging", None, False),  # E23: the votes stay, the class says that they differ
        ([B, B, B, T], "preference", "b", False),
        ([B, B, T, T], "residual", None, False),
        ([A, T], "residual", None, False),
        ([T, T, T, A], "tie", None, False),
        ([T, T, T, A, B], "diverging", None, False),
        ([("a", 2), ("b", 2), T], "diverging", None, True),
        ([("a", 2), ("b", 1), T], "diverging", None, False),
        ([("a", 2), B, T], "diverging", None, False),  # unstated is not clear
    ],
)
def test_the_class_of_a_panel(panel, label, preferred, substantial):
    [row] = classified([panel]).to_dicts()
    assert (row["agreement_class"], row["preferred"], row["substantial"]) == (label, preferred, substantial)
    assert row["n_annotators"] == len(panel)


@pytest.mark.claim("div-2")
def test_every_pair_has_one_class_and_a_swap_mirrors_it(record_claim):
    panels = [panel for n in range(5) for panel in product(STATES, repeat=n)]
    one, other = classified(panels), classified([mirrored(panel) for panel in panels])
    found = class_counts(one)["all"]
    assert len(one) == len(panels) == sum(found[label] for label in CLASSES)
    assert min(found.values()) > 0, "every class occurs"
    swapped = other.with_columns(
        pl.col(name).cast(pl.String).replace(SWAP).cast(pl.Enum(["a", "b"]))
        for name in ("preferred", "careful_preferred")
    )
    assert one.equals(swapped)
    substantial = one.filter("substantial")
    assert (substantial["agreement_class"] == "diverging").all()
    record_claim(
        f"all {len(panels)} panels of up to four annotators: "
        + ", ".join(f"{found[label]} {label}" for label in CLASSES)
        + f"; {found['substantial']} substantial, all diverging; mirrored under a swap"
    )


def test_a_careless_annotator_is_not_a_diverging_one():
    table = classified([[A, A, B], [A, B, B], [A, A, A]], careless=["ann2"])
    assert table["agreement_class"].to_list() == ["diverging", "diverging", "preference"]
    assert table["careful_class"].to_list() == ["preference", "diverging", "preference"]
    assert table["n_careless"].to_list() == [1, 1, 1]


def test_pairs_without_votes_are_kept_and_counted():
    pairs = [comparison(name, "one", "two") for name in ("voted", "unvoted")]
    given = [vote(pairs[0]["pair_id"], name, "a") for name in ("x", "y")]
    table = agreement_classes(comparisons(pairs), votes(given), careless=[])
    assert len(table) == 2
    expected = dict.fromkeys(CLASSES, 0) | {"preference": 1, "too_few_votes": 1, "substantial": 0, "no_votes": 1}
    assert class_counts(table)["all"] == expected


def test_no_votes_at_all():
    table = agreement_classes(comparisons([comparison("p", "one", "two")]), votes([]), careless=[])
    assert table["agreement_class"].to_list() == ["too_few_votes"]


def test_a_judge_who_opposes_themselves_does_not_diverge():
    pair = content_hash("pair")
    given = [vote(pair, "judge", "a"), vote(pair, "judge", "b"), vote(pair, "other", "a")]
    table = agreement_classes(comparisons([comparison("p", "x", "y", pair_id=pair)]), votes(given), careless=[])
    assert table["agreement_class"].to_list() == ["residual"]
