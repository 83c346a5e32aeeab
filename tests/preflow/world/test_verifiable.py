import numpy as np
import pytest

from preflow.world.verifiable import FAMILIES, draw_instructions, gold_score

BULLETS = {"style": "bullets", "items": 2}
JSON = {"style": "json", "keys": ["name", "use"]}
KEYWORDS = {"include": ["snow", "ice"], "exclude": ["coat"]}
SUM = {"result": 12, "at_most": 12}
PHRASES = {"start": "In short,", "end": "The end."}

BY_HAND = [
    ("length", {"at_least": 1, "at_most": 3}, "one two three", 10.0),
    ("length", {"at_least": 1, "at_most": 4}, "one two three four five", 7.5),  # a quarter too many
    ("length", {"at_least": 4, "at_most": None}, "it's well-made", 5.0),  # two words of four
    ("length", {"at_least": 2, "at_most": 2}, "one two three four five", 0.0),  # off by more than the bound
    ("keywords", KEYWORDS, "Snow and ice.", 10.0),
    ("keywords", KEYWORDS, "Snowflakes, ice and a coat", 3.333),  # only "ice" is as asked; "Snowflakes" is another word
    ("format", BULLETS, "- a\n- b", 10.0),
    ("format", BULLETS, "Here:\n- a\n- b", 6.667),  # two of three lines
    ("format", BULLETS, "- a\n- b\n- c", 5.0),  # one item too many of two
    ("format", {"style": "numbered", "items": 2}, "1. a\n2) b", 10.0),
    ("format", JSON, '{"name": "tea", "use": "drink"}', 10.0),
    ("format", JSON, 'Sure: {"name": "tea", "place": 1}', 5.333),  # parses; 1 key of the 3 named; words around it
    ("format", JSON, '{"name": tea', 1.0),  # does not parse, names one key of two
    ("format", JSON, "[1]", 0.0),
    ("format", {"style": "capitals"}, "TEa 1!", 6.667),
    ("arithmetic", SUM, "12", 10.0),
    ("arithmetic", SUM, "5 + 7 = 12.", 10.0),
    ("arithmetic", SUM, "12 - 1 = 11", 2.0),  # brief and wrong
    ("arithmetic", SUM, "one " * 12 + "12", 8.0),  # right, but thirteen words
    ("phrases", PHRASES, '"In short, tea. The end."', 10.0),
    ("phrases", PHRASES, "Tea, in short, the end. Bye", 4.0),  # both stand elsewhere
]


@pytest.mark.parametrize(("family", "constraint", "response", "score"), BY_HAND)
def test_scores_worked_by_hand(family, constraint, response, score):
    assert gold_score(family, constraint, response) == score


def test_every_drawn_instruction_scores_an_empty_response_zero_and_any_other_within_bounds():
    instructions = draw_instructions(100, np.random.default_rng(0))
    assert {instruction.family for instruction in instructions} == set(FAMILIES)
    for instruction in instructions:
        assert gold_score(instruction.family, instruction.constraint, " \n") == 0
        for response in ("No.", "- 1\n- 2", '{"name": 3}', "WORD " * 100, "12"):
            assert 0 <= gold_score(instruction.family, instruction.constraint, response) <= 10


def test_prompts_are_distinct_and_repeat_with_the_seed():
    first, again = (draw_instructions(300, np.random.default_rng(5)) for _ in range(2))
    assert first == again
    assert len({instruction.prompt for instruction in first}) == 300
    assert draw_instructions(300, np.random.default_rng(6)) != first


def test_more_prompts_than_the_families_hold_are_refused():
    class Stuck:
        """A generator that always draws the same."""

        def integers(self, low, high=None):
            return 0 if high is None else low

        def permutation(self, options):
            return options

    with pytest.raises(ValueError, match="of 20 distinct instructions"):
        draw_instructions(20, Stuck())


def test_unknown_family_and_style_are_refused():
    with pytest.raises(ValueError, match="unknown family 'rhyme': known are length"):
        gold_score("rhyme", {}, "moon, June")
    with pytest.raises(ValueError, match="unknown style 'table'"):
        gold_score("format", {"style": "table"}, "| a |")
