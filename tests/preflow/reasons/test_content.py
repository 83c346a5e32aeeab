import math

import polars as pl
import pytest

from preflow.reasons.content import PROPERTIES, TOGETHER, content_evidence, response_properties
from tests.preflow.feedback import comparison, comparisons


def evidence(prompt, a, b):
    return content_evidence(comparisons([comparison(prompt, a, b)]).collect())[0].row(0, named=True)


def test_properties_worked_by_hand():
    texts = ["The cat sat. The dog ran!", "- one\n- two\n**three** four", "I'm sorry, I can't help. Maybe later 😀"]
    found = response_properties(pl.Series(texts)).to_dicts()
    assert found[0]["length"] == pytest.approx(math.log(7))
    # 18 characters in 6 words and 2 sentences: 4.71 * 3 + 0.5 * 3 - 21.43 is below grade 0.
    assert found[0]["reading_level"] == 0
    assert found[0]["tone"] == pytest.approx(math.log(2))
    assert found[1]["format"] == pytest.approx(2 * math.log(3))  # two items; two bold marks
    assert found[1]["unfinished"] == 1
    assert found[2]["refusal"] == 1
    assert found[2]["tone"] == pytest.approx(math.log(2))  # one emoji
    assert found[2]["hedging"] == pytest.approx(100 / 7)
    assert [row["unfinished"] for row in found] == [0, 1, 0]


def test_reading_level_is_the_automated_readability_index():
    text = "Considerable terminological inconsistencies notwithstanding."
    # 56 characters, 4 words, 1 sentence: 4.71 * 14 + 0.5 * 4 - 21.43 = 46.51, cut at 25.
    assert response_properties(pl.Series([text]))["reading_level"].item() == 25
    plain = "Many people enjoy walking outside whenever possible."
    # 45 characters, 7 words, 1 sentence: 4.71 * 45 / 7 + 3.5 - 21.43 = 12.35.
    assert response_properties(pl.Series([plain]))["reading_level"].item() == pytest.approx(12.349, abs=1e-3)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("a b c a b c", 1 / 4),  # abc bca cab abc
        ("go go go go go", 2 / 3),
        ("all words differ here", 0),
        ("too short", 0),
        ("", 0),
    ],
)
def test_repetition(text, share):
    assert response_properties(pl.Series([text]))["repetition"].item() == pytest.approx(share)


def test_what_both_responses_share():
    found = evidence("Who won in 1954?", "In the end Germany won, 3 to 2.", "In the end Hungary won, 4 to 2.")
    # Words: in, the, end, won, to of those and germany, hungary. Facts: Germany, 3, 2 and Hungary, 4, 2.
    assert found["overlap"] == pytest.approx(5 / 7)
    assert found["fact_conflict"] == pytest.approx(4 / 5 * 5 / 7)
    assert found["prompt_words"] == pytest.approx(math.log(5))
    assert found["both_refuse"] == 0


def test_a_side_without_facts_contradicts_nothing():
    assert evidence("p", "It was in 1954.", "It was long ago.")["fact_conflict"] == 0


def test_a_missing_prompt_and_two_refusals():
    found = evidence("", "I'm sorry, no.", "I can't help with that, I'm afraid.")
    assert (found["prompt_words"], found["prompt_vagueness"], found["both_refuse"]) == (0, 0, 1)
    assert found["gap_refusal"] == 0


def test_nothing_changes_when_the_responses_change_places():
    a, b = "Well!! In 1990 Paris had 3 of them.\n- one\n- two", "Perhaps in 1991 it had fewer"
    there, back = evidence("Tell me something", a, b), evidence("Tell me something", b, a)
    assert set(there) == {"pair_id", *(f"gap_{name}" for name in PROPERTIES), *TOGETHER}
    assert {**there, "pair_id": ""} == pytest.approx({**back, "pair_id": ""})
    differences = [content_evidence(comparisons([comparison("p", *texts)]).collect())[1] for texts in ((a, b), (b, a))]
    assert differences[0].drop("pair_id").row(0) == pytest.approx([-x for x in differences[1].drop("pair_id").row(0)])
