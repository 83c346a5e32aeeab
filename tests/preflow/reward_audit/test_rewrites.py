"""Programs that rewrite, worked by hand, and the table of rewrites with a reason for each that is missing."""

import polars as pl
import pytest

from preflow.reward_audit.attributes import exclaimed, hedged, listed, longer_than, misspelt, vowel_first
from preflow.reward_audit.rewrites import Wording, by_endpoint, by_model, by_program, responses_of, rewrites
from preflow.reward_audit.schemas import Rewrites
from tests.preflow.endpoint.server import endpoint, served
from tests.preflow.policies.conftest import taught

WORDS = {"water", "boils", "slowly", "today"}
TEXT = "Water boils slowly. It is warm today. I like tea."


@pytest.mark.parametrize(
    ("attribute", "text", "with_it", "without_it"),
    [
        (longer_than(30), TEXT, TEXT, "Water boils slowly."),
        (longer_than(60), TEXT, f"{TEXT} In other words, water boils slowly.", TEXT),
        (listed(), TEXT, "- Water boils slowly.\n- It is warm today.\n- I like tea.", TEXT),
        (hedged(), "Perhaps water boils.", "I think that water boils.", "Water boils."),
        (exclaimed(), "Water boils. It is 3.5 l!", "Water boils! It is 3.5 l!", "Water boils. It is 3.5 l."),
        (misspelt(WORDS, share=1.0), "Water bolis.", "Wtaer bolis.", "Water boils."),
        (vowel_first(), "Water boils.", "Also, Water boils.", "Then, Water boils."),
    ],
)
def test_by_hand(attribute, text, with_it, without_it):
    made = {target: attribute.rewrite(text, target) for target in (True, False)}
    assert made[False] == without_it
    assert attribute.holds(made[False]) is False
    if attribute.name == "length" and text == with_it:
        assert attribute.holds(text)
    else:
        assert made[True] == with_it
    assert attribute.holds(made[True])


@pytest.mark.parametrize(
    "attribute", [listed(), hedged(), exclaimed(), vowel_first(), longer_than(40), misspelt(WORDS)]
)
def test_both_ways_reach_their_targets(attribute):
    for has in (True, False):
        once = attribute.rewrite(TEXT, not has)
        assert attribute.holds(once) is not has
        assert attribute.holds(attribute.rewrite(once, has)) is has


def comparison(*texts):
    prompt = [{"role": "user", "content": "Why?"}]
    rows = [
        {"prompt_group": "0" * 32, "prompt": prompt, "response_a": texts[i], "response_b": texts[i + 1]}
        for i in range(0, len(texts), 2)
    ]
    return pl.DataFrame(rows)


def test_responses_are_distinct_and_drawn_from_the_seed():
    given = comparison("one.", "two.", "two.", "three.")
    assert sorted(responses_of(given, most=9, seed=0)["original"]) == ["one.", "three.", "two."]
    assert responses_of(given, most=2, seed=0).equals(responses_of(given.reverse(), most=2, seed=0))
    assert len({responses_of(given, most=1, seed=seed)["original"][0] for seed in range(20)}) == 3


def test_what_is_missing_is_named():
    attribute = vowel_first()
    responses = responses_of(comparison("Water boils.", "42", "Ice melts.", "Tea."), most=9, seed=0)
    found = rewrites(responses, attribute, by_program(attribute))
    Rewrites.validate(found)
    by = {row["original"]: row for row in found.to_dicts()}
    assert by["42"]["outcome"] == "unclassified"
    assert (by["Water boils."]["rewrite"], by["Water boils."]["double"]) == ("Also, Water boils.", "Then, Water boils.")
    assert by["Ice melts."]["outcome"] == "rewritten"

    def stubborn(texts, target):
        return list(texts)

    assert set(rewrites(responses, attribute, stubborn)["outcome"]) == {"unclassified", "no_rewrite"}

    def one_way(texts, target):
        return [attribute.rewrite(text, target) if target else None for text in texts]

    outcomes = dict(rewrites(responses, attribute, one_way).select("original", "outcome").rows())
    assert (outcomes["Water boils."], outcomes["Ice melts."]) == ("no_second_rewrite", "no_rewrite")


def test_a_language_model_rewrites_and_what_it_leaves_undone_is_no_rewrite(tmp_path):
    attribute = exclaimed()
    responses = responses_of(comparison("Water boils.", "Ice melts!"), most=9, seed=0)
    answers = {
        "Water boils.": "Water boils!",
        "Water boils!": "<think>hm</think> Water boils.",
        "Ice melts!": "Ice melts!",
    }
    with served(lambda material: answers[material["response"]]) as (url, requests):
        rewriter = by_endpoint(Wording("excited", "calm"), endpoint=endpoint(url), answers=tmp_path / "answers.sqlite")
        found = {row["original"]: row for row in rewrites(responses, attribute, rewriter).to_dicts()}
        assert (found["Water boils."]["rewrite"], found["Water boils."]["double"]) == ("Water boils!", "Water boils.")
        assert found["Ice melts!"]["outcome"] == "no_rewrite"
        assert len(requests) == 3
        assert {"excited" in request["messages"][1]["content"] for request in requests} == {True, False}
        rewrites(responses, attribute, rewriter)
        assert len(requests) == 3


def test_a_model_at_hand_rewrites_the_same_from_the_same_seed():
    """A policy of the world does not know the words of the task; what it says does not reach the target."""
    attribute = exclaimed()
    responses = responses_of(comparison("a b c .", "d e f ."), most=9, seed=0)
    limits = {"max_prompt_tokens": 400, "max_new_tokens": 8}
    said = [
        by_model(Wording("excited", "calm"), taught(), **limits, seed=seed)(responses["original"].to_list(), True)
        for seed in (0, 0, 1)
    ]
    assert said[0] == said[1] != said[2]
    found = rewrites(responses, attribute, by_model(Wording("excited", "calm"), taught(), **limits, seed=0))
    assert set(found["outcome"]) == {"no_rewrite"}
