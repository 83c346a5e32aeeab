import polars as pl

from preflow.schemas import PreferencePairs
from preflow.treatments.goals import GoalText, with_goal
from preflow.world.gold import gold_rewards
from preflow.world.tasks import gold_reward


def user(content):
    return {"role": "user", "content": content}


def rewards(*rows):
    prompts, responses = zip(*rows, strict=True)
    kind = PreferencePairs.create_empty().schema["prompt"]
    return gold_rewards(pl.Series(prompts, dtype=kind), pl.Series(responses)).to_list()


def test_rewards_are_those_of_the_task():
    # Right, half of the letters, nothing, a refusal; of two digits the last is right.
    assert rewards(
        ([user("copy : a b")], "a b"),
        ([user("copy : a b")], "a"),
        ([user("copy : a b")], ""),
        ([user("copy : a b")], "i'm sorry"),
        ([user("add : 1 2 + 2 3")], "4 5"),
    ) == [10.0, 5.0, 0.0, 0.0, 5.0]


def test_what_is_no_task_has_no_reward():
    found = rewards(
        ([user("What is 2 + 2?")], "4"),
        ([user("copy a b")], "a b"),
        ([user("copy : ")], ""),
        ([], "a b"),
        ([user("copy : a b"), {"role": "assistant", "content": "a b"}, user("thanks")], "a"),
        ([user("copy : a b")], "a b"),
    )
    assert found == [None] * 5 + [10.0]


def test_a_goal_a_system_turn_or_earlier_turns_do_not_matter():
    plain = [user("reverse : a b c d")]
    text = GoalText(instruction="{goals}", scale="", attributes=("score",), place="system")
    prompts = [
        plain,
        with_goal(plain, (3.0,), text),
        [{"role": "system", "content": "copy : a b"}, *plain],
        [user("copy : a b"), {"role": "assistant", "content": "a b"}, *plain],
    ]
    assert (
        rewards(*((prompt, "d c b") for prompt in prompts))
        == [gold_reward("reverse : a b c d", "d c b")] * 4
        == [7.5] * 4
    )


def test_a_table_without_rows_has_no_rewards():
    kind = PreferencePairs.create_empty().schema["prompt"]
    empty = gold_rewards(pl.Series([], dtype=kind), pl.Series([], dtype=pl.String))
    assert (empty.dtype, len(empty)) == (pl.Float64, 0)
