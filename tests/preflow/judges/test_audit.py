import numpy as np
import polars as pl
import pytest

from preflow.divergence.classes import agreement_classes
from preflow.judges.audit import judge_audit, verdicts_of, with_decisions
from preflow.judges.schemas import JudgeVerdicts
from tests.preflow.feedback import comparison, comparisons, vote, votes

HOW = {"bootstrap": 2000, "seed": 0}
SAID = ("verdict", "swapped_verdict")
VOTED = {"preference": "aaa", "tie": ("tie", "tie", "tie"), "diverging": "aab"}


def world(n, judge, *, lengths=None):
    """`n` pairs of each class; `judge` says what it answers, by number and class, in both orders."""
    rows, given = [], []
    for kind, said in VOTED.items():
        for i in range(n):
            a, b = lengths(i) if lengths else (8, 8)
            row = comparison(f"{kind} {i}", "a" * a, "b" * b, gold="a")
            rows.append(row)
            given += [vote(row["pair_id"], f"p{k}", choice) for k, choice in enumerate(said)]
            for first in "ab":
                given.append(
                    vote(row["pair_id"], "judge", judge(i, kind, first), annotator_kind="model", shown_first=first)
                )
    given = votes(given)
    classes = agreement_classes(comparisons(rows), given.filter(pl.col("annotator_kind") == "person"), careless=[])
    return comparisons(rows), classes.lazy(), verdicts_of(given, "judge")


def audited(judge, n=40, **how):
    return judge_audit(*world(n, judge, **how), **HOW)


def test_a_judge_that_always_names_a_winner():
    found = audited(lambda i, kind, first: "a" if i % 4 else "b")
    assert [found["winner_rate"][kind]["estimate"] for kind in VOTED] == [1, 1, 1]
    assert found["winner_rate"]["substantial"] is None, "no strength is stated"
    assert found["diverging_minus_preference"] == {"estimate": 0.0, "low": 0.0, "high": 0.0, "p_value": 1.0}
    assert found["agreed_winner"]["estimate"] == found["gold"]["estimate"] == 0.75
    assert found["position"]["same_verdict"]["estimate"] == 1
    assert found["position"]["for_first"]["estimate"] == 0.5


def test_a_judge_that_ties_where_people_differ_is_told_apart():
    found = audited(lambda i, kind, first: "tie" if kind == "diverging" and i % 2 else "a")
    difference = found["diverging_minus_preference"]
    assert difference["estimate"] == pytest.approx(-0.5)
    assert difference["low"] < -0.3
    assert difference["p_value"] < 1e-6


def rejections(tie_rates, draws=120):
    """How often no difference of the winner rates is rejected at .05, where ties come at these rates; 60 pairs each."""
    rows, classes, verdicts = world(60, lambda i, kind, first: "a")
    judged = verdicts.join(classes.collect(), on="pair_id", maintain_order="left")
    rates = judged["agreement_class"].cast(pl.String).replace_strict({"tie": 0.0} | tie_rates).to_numpy()
    rng, rejected = np.random.default_rng(5), 0
    for _ in range(draws):
        tied = pl.Series(rng.random(len(rates)) < rates)
        said = pl.when(tied).then(pl.lit("tie")).otherwise(pl.lit("a"))
        drawn = verdicts.with_columns(said.cast(verdicts.schema[name]).alias(name) for name in SAID)
        found = judge_audit(rows, classes, drawn, **HOW)
        rejected += found["diverging_minus_preference"]["p_value"] < 0.05
    return rejected


def test_equal_winner_rates_are_seldom_called_different():
    """The control of the next test: 5 % of 120 are 6; binomial, 13 or more have probability .006."""
    assert rejections({"preference": 0.3, "diverging": 0.3}) <= 12


def test_unequal_winner_rates_are_told_apart():
    """A difference of .3 on 60 pairs each is found with power .93; below 100 of 120 has probability .0003."""
    assert rejections({"preference": 0.15, "diverging": 0.45}) >= 100


def test_a_judge_that_takes_the_first_response_decides_nothing():
    found = audited(lambda i, kind, first: first)
    assert found["position"]["for_first"]["estimate"] == 1
    assert found["position"]["same_verdict"]["estimate"] == 0
    assert found["winner_rate"]["preference"]["estimate"] == 0, "both orders together are a tie"
    assert found["length"] is None


def test_a_judge_that_likes_length_has_a_slope():
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 60, (200, 2))
    longer = rng.random(200) < 1 / (1 + (sizes[:, 1] / sizes[:, 0]) ** 2.0)
    found = audited(lambda i, kind, first: "a" if longer[i] else "b", n=200, lengths=lambda i: sizes[i])["length"]
    assert found["longer_wins"]["estimate"] > 0.7
    error = (found["slope"]["high"] - found["slope"]["low"]) / 3.92
    assert abs(found["slope"]["estimate"] - 2) < 3 * error  # 2 was planted; one draw in 370 lies further off
    assert found["slope"]["p_value"] < 1e-6
    separated = audited(lambda i, kind, first: "a" if i % 2 else "b", lengths=lambda i: (9, 4) if i % 2 else (4, 9))
    assert separated["length"]["slope"] is None, "no finite slope"
    assert separated["length"]["longer_wins"]["estimate"] == 1


def test_one_null_verdict_of_two_is_unreadable():
    frame = JudgeVerdicts.cast(
        pl.DataFrame(
            {"pair_id": ["0" * 32, "1" * 32, "2" * 32], "verdict": ["a", "a", "a"], "swapped_verdict": ["a", None, "b"]}
        )
    )
    assert with_decisions(frame)["decision"].to_list() == ["a", None, "tie"]
    one_order = frame.with_columns(swapped_verdict=pl.lit(None, dtype=frame.schema["swapped_verdict"]))
    assert with_decisions(one_order)["decision"].to_list() == ["a", "a", "a"]


def test_strangers_are_refused():
    rows, classes, verdicts = world(2, lambda i, kind, first: "a")
    with pytest.raises(ValueError, match="no verdict is on a pair"):
        judge_audit(rows, classes, verdicts.head(0), **HOW)
    with pytest.raises(ValueError, match="no vote of a judge 'x'"):
        verdicts_of(votes([]), "x")
