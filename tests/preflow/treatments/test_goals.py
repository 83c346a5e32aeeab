import pytest

from preflow.treatments.goals import GoalText, number, with_goal, without_goal

SAY = "Reach {goals} on {scale}."
SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}
ASSISTANT = {"role": "assistant", "content": "Hello."}


def text(place, *attributes):
    return GoalText(instruction=SAY, scale="1 to 10", attributes=attributes or ("Overall score",), place=place)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (9.0, "9"),
        (4.5, "4.5"),
        (0.0, "0"),
        (-3.0, "-3"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e15, "1000000000000000"),
    ],
)
def test_numbers_as_people_write_them(value, said):
    assert number(value) == said


SAID = "Reach Overall score: 9 on 1 to 10."
CASES = [  # place, prompt, roles and contents with the goal
    ("system", [USER], [("system", SAID), ("user", "Why?")]),
    ("system", [SYSTEM, USER], [("system", f"{SAID}\n\nBe brief."), ("user", "Why?")]),
    ("system", [], [("system", SAID)]),
    ("user", [USER], [("user", f"{SAID}\n\nWhy?")]),
    ("user", [SYSTEM, USER], [("system", "Be brief."), ("user", f"{SAID}\n\nWhy?")]),
    ("user", [], [("user", SAID)]),
    ("user", [SYSTEM], [("system", "Be brief."), ("user", SAID)]),
    ("user", [ASSISTANT], [("user", SAID), ("assistant", "Hello.")]),
]


@pytest.mark.parametrize(("place", "prompt", "expected"), CASES)
def test_goal_stands_where_the_template_can_show_it(place, prompt, expected):
    before = [dict(message) for message in prompt]
    asked = with_goal(prompt, (9.0,), text(place))
    assert [(message["role"], message["content"]) for message in asked] == expected
    assert without_goal(asked, (9.0,), text(place)) == prompt == before


def test_several_attributes_in_the_order_of_the_text():
    asked = with_goal([USER], (4.0, 2.5), text("system", "Honesty", "Depth"))
    assert asked[0]["content"] == "Reach Honesty: 4, Depth: 2.5 on 1 to 10."


def test_braces_in_names_are_only_text():
    odd = GoalText(instruction="{goals} {x}", scale="{goals}", attributes=("{scale}",), place="user")
    assert odd.say((1.0,)) == "{scale}: 1 {x}"


def test_wrong_number_of_goals_is_refused():
    with pytest.raises(ValueError, match=r"goal \(9.0, 1.0\) needs 1 values"):
        with_goal([USER], (9.0, 1.0), text("system"))


@pytest.mark.parametrize("prompt", [[USER], [{"role": "system", "content": SAID + "x"}]])
def test_a_prompt_without_the_goal_cannot_be_undone(prompt):
    with pytest.raises(ValueError, match="no system message opens with"):
        without_goal(prompt, (9.0,), text("system"))


def test_a_text_that_never_says_the_goal_is_refused():
    with pytest.raises(ValueError, match="never says the goal"):
        GoalText(instruction="Be good.", scale="", attributes=("Overall score",), place="user")
    with pytest.raises(ValueError, match="at least one attribute"):
        GoalText(instruction="{goals}", scale="", attributes=(), place="user")
