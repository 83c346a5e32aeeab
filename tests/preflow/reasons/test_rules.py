import polars as pl
import pytest

from preflow.reasons.evidence import pair_evidence
from preflow.reasons.rules import tag_by_rule
from preflow.reasons.schemas import CLASS_OF, UNVERIFIED, DivergenceReasons, ReasonRemainders
from tests.preflow.feedback import comparison, comparisons, vote, votes
from tests.preflow.reasons.conftest import CARE, THRESHOLDS
from tests.preflow.reasons.test_judgements import quality

PROMPT = "Explain in two or three plain sentences why the leaves of most trees turn yellow in autumn."
PLAIN = "In autumn trees draw the green colour back out of their leaves. The yellow that was there all along is left."
STORY = "My favourite month is October: we bake, we walk, we sing, we light a fire at night and read to each other."
SAME = "When autumn comes the green goes out of leaves. What is left is the yellow that was in them all along."


def tagged(prompt, a, b, cast=(("x", "a"), ("y", "b")), agreement=None):
    row = comparison(prompt, a, b)
    given = votes([vote(row["pair_id"], name, choice) for name, choice in cast])
    evidence = pair_evidence(comparisons([row]), given, quality(**(agreement or {})), care=CARE, shrinkage=1.0)
    return tag_by_rule(evidence, THRESHOLDS)


@pytest.mark.parametrize(
    ("prompt", "a", "b", "expected"),
    [
        (PROMPT, PLAIN, SAME, []),
        (
            PROMPT,
            PLAIN,
            f"{SAME} The days get short, so a leaf costs more than it earns by then. {PLAIN}",
            ["verbosity"],
        ),
        (PROMPT, PLAIN, "# Leaves\n\n- " + SAME.replace(". ", ".\n- "), ["format"]),
        (PROMPT, PLAIN, f"Oh, what a lovely question! 🍂 {SAME} Enjoy!!", ["aesthetic_taste"]),
        (PROMPT, PLAIN, "I'm sorry, I can't help with that.", ["comply_refuse"]),
        (PROMPT, "I'm unable to say.", "I'm sorry, I can't help with that.", ["refuse_refuse"]),
        (PROMPT, PLAIN, SAME[:-30], ["degenerate_output"]),
        (PROMPT, "The town had 4,200 people in 1910.", "The town had 3,100 people in 1870.", ["hallucination"]),
        ("Autumn, please?", PLAIN, STORY, ["underspecification"]),
    ],
)
def test_templated_pairs(prompt, a, b, expected):
    reasons, remainders = tagged(prompt, a, b)
    assert reasons["label"].to_list() == expected
    assert remainders["n_causes"].item() == len(expected)
    assert remainders["unexplained"].item() == float(not expected)


def test_a_pair_may_have_several_reasons_with_the_numbers_that_fired():
    listed = "# Leaves\n\n" + "\n".join(f"- {sentence}" for sentence in [PLAIN, SAME, "The days get short."])
    reasons, _ = tagged(PROMPT, "It is the cold.", listed)
    assert reasons["label"].to_list() == ["format", "verbosity"]
    assert reasons["evidence"].to_list() == ["gap_format 2.08", "length_ratio 9.6"]  # (1 + 47 words) / (1 + 4)
    assert reasons["class"].unique().to_list() == ["style"]
    assert reasons["probability"].null_count() == 2
    assert DivergenceReasons.is_valid(reasons)


def test_what_a_careless_vote_alone_made_diverge_has_no_other_reason():
    cast = [("x", "a"), ("y", "a"), ("careless", "b")]
    reasons, _ = tagged(PROMPT, PLAIN, "I'm sorry, no.", cast, {"careless": 0.2})
    assert reasons.select("label", "evidence").row(0) == ("careless_rating", "only_doubtful 1.0, doubtful_share 0.33")
    assert len(reasons) == 1


def test_a_pair_that_does_not_diverge_is_not_looked_at():
    reasons, remainders = tagged(PROMPT, PLAIN, "I'm sorry, no.", [("x", "a"), ("y", "tie")])
    assert len(reasons) == len(remainders) == 0
    assert DivergenceReasons.is_valid(reasons)
    assert ReasonRemainders.is_valid(remainders)


def test_ten_causes_in_four_classes():
    assert len(CLASS_OF) == 10
    assert len(set(CLASS_OF.values())) == 4
    assert set(UNVERIFIED) < CLASS_OF.keys()


def test_a_cause_in_the_wrong_class_is_refused():
    reasons, _ = tagged(PROMPT, PLAIN, "I'm sorry, no.")
    wrong = reasons.with_columns(pl.lit("style").cast(reasons.schema["class"]).alias("class"))
    assert not DivergenceReasons.is_valid(wrong)
