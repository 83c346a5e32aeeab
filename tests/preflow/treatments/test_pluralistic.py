import polars as pl
import pytest

from preflow.divergence.schemas import AgreementClasses
from preflow.pairs import Verdicts
from preflow.treatments.pluralistic import SITUATIONS, pluralistic_pairs
from preflow.treatments.schemas import TreatedPairs
from preflow.triage.schemas import GroupPreferences
from tests.preflow.feedback import comparison, comparisons

POLICY = {
    "preference": "keep", "tie": "drop", "diverging": "soft_label", "substantial": "split_by_group",
    "residual": "keep", "too_few_votes": "review",
}  # fmt: skip
LABELS = dict.fromkeys(SITUATIONS, "b") | {"tie": "tie", "residual": None}
ROWS = {name: comparison(name, f"{name} a", f"{name} b", score_a=1.0, score_b=2.0) for name in SITUATIONS}
IDS = {name: row["pair_id"] for name, row in ROWS.items()}


def tables(preferred=("a", "b", "tie"), *, named=tuple(SITUATIONS)):
    decided = [
        {
            "pair_id": IDS[name],
            "outcome": {"b": "pair", "tie": "tie", None: "undecided"}[label],
            "verdict": label,
            "label_source": label and "majority",
        }
        for name, label in LABELS.items()
    ]
    classes = [
        {
            "pair_id": IDS[name],
            "n_annotators": 4,
            "agreement_class": "diverging" if name == "substantial" else name,
            "preferred": "b" if name == "preference" else None,
            "substantial": name == "substantial",
            "n_careless": 0,
            "careful_class": "diverging" if name == "substantial" else name,
            "careful_preferred": "b" if name == "preference" else None,
            "careful_substantial": name == "substantial",
        }
        for name in SITUATIONS
    ]
    groups = [
        {"pair_id": IDS["substantial"], "cluster": k, "n_annotators": 2, "preferred": side}
        for k, side in enumerate(preferred)
    ]
    splits = pl.LazyFrame({"pair_id": list(IDS.values()), "split": "train"})
    shares = pl.LazyFrame({"pair_id": [IDS[name] for name in named]}).with_columns(vote_share=0.75)
    frames = (
        schema.cast(pl.DataFrame(rows)).lazy()
        for schema, rows in ((Verdicts, decided), (AgreementClasses, classes), (GroupPreferences, groups))
    )
    return comparisons(list(ROWS.values())), shares, *frames, splits


def found(**how):
    policy = how.pop("policy", POLICY)
    return pluralistic_pairs(*tables(**how), policy=policy)


def test_every_pair_has_its_rows_with_a_reason():
    table = found()
    TreatedPairs.validate(table)
    names = {pair: name for name, pair in IDS.items()}
    rows = {
        (names[row["source_pair_id"]], row["treatment"]): (row["reason"], row["kept"], row["chosen_is"])
        for row in table.to_dicts()
    }
    assert rows == {
        ("preference", "pluralistic"): ("preference_keep", True, "b"),
        ("tie", "pluralistic"): ("tie_drop", False, "a"),
        ("diverging", "pluralistic"): ("diverging_soft_label", True, "b"),
        ("substantial", "pluralistic_group_0"): ("substantial_group_preference", True, "a"),
        ("substantial", "pluralistic_group_1"): ("substantial_group_preference", True, "b"),
        ("substantial", "pluralistic_group_2"): ("substantial_group_tie", False, "a"),
        ("residual", "pluralistic"): ("residual_no_preference", False, "a"),
        ("too_few_votes", "pluralistic"): ("too_few_votes_review", False, "b"),
    }
    chosen = table.filter(pl.col("reason") == "preference_keep").select("chosen", "rejected", "score_chosen")
    assert chosen.row(0) == ("preference b", "preference a", 2.0)


def test_groups_that_do_not_oppose_give_one_soft_label():
    row = found(preferred=("b", "b", "tie")).filter(pl.col("source_pair_id") == IDS["substantial"])
    assert row.select("treatment", "reason", "kept", "chosen_is").row(0) == (
        "pluralistic", "substantial_groups_do_not_oppose", True, "b",
    )  # fmt: skip


def test_soft_labels_are_the_share_of_the_votes_for_chosen_and_all_others_are_hard():
    def shares(**how):
        rows = found(**how).filter(pl.col("share").is_not_null())
        return dict(rows.select("source_pair_id", "share").iter_rows())

    assert shares() == {IDS["diverging"]: 0.75}
    assert shares(preferred=("b", "b", "tie")) == {IDS["diverging"]: 0.75, IDS["substantial"]: 0.75}
    softened = dict.fromkeys(SITUATIONS, "soft_label")
    assert set(shares(policy=softened)) == set(IDS.values()) - {IDS["tie"], IDS["residual"]}, "no preference, no label"


def test_a_soft_label_without_its_preference_pair_is_refused():
    with pytest.raises(ValueError, match=f"1 soft labels have no preference pair, first {IDS['diverging']}"):
        found(named=["preference"])


def test_a_policy_with_holes_or_inventions_is_refused():
    with pytest.raises(ValueError, match=r"lacks \['tie'\] and has \{'ties': 'drop'\}"):
        found(policy={name: action for name, action in POLICY.items() if name != "tie"} | {"ties": "drop"})
    with pytest.raises(ValueError, match=r"has {'tie': 'average'}"):
        found(policy=POLICY | {"tie": "average"})


def test_same_rows_in_another_order_same_table():
    first, *rest = tables()
    assert pluralistic_pairs(first.reverse(), *rest, policy=POLICY).equals(found())
