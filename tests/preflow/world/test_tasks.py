import itertools
from collections import Counter

import numpy as np
import pytest

from preflow.world.style import REFUSAL
from preflow.world.tasks import FAMILIES, LEVELS, distinct_tasks, gold_reward, read_task, similarity, task_stream

ALL = {"families": list(FAMILIES), "levels": LEVELS}


@pytest.fixture(scope="module")
def tasks():
    return distinct_tasks(720, np.random.default_rng(0), exclude=frozenset(), **ALL)


@pytest.mark.parametrize(
    ("prompt", "answer", "level"),
    [
        ("copy : d a b a", "d a b a", 2),
        ("reverse : d a b a", "a b a d", 2),
        ("sort : d a b a", "a a b d", 2),
        ("add : 3 7 + 4 5", "8 2", 2),
        ("add : 9 + 5", "1 4", 1),
        ("keep animals : cat red hen lime cat plum", "cat hen cat", 3),
        ("write : 1 animals 1 colors without ant red", "bear black", 1),
    ],
)
def test_answers_and_levels_worked_by_hand(prompt, answer, level):
    task = read_task(prompt)
    assert (" ".join(task.answer), task.level, task.prompt) == (answer, level, prompt)
    assert gold_reward(prompt, answer) == 10


@pytest.mark.parametrize(
    ("prompt", "response", "reward"),
    [
        ("copy : d a b a", "d a b", 7.5),  # one of four is missing
        ("copy : d a b a", "a d a b a", 8.0),  # one of five is too many
        ("copy : d a b a", "a d b a", 5.0),  # a swap is two substitutions
        ("copy : a b", "c d", 0.0),
        ("add : 3 7 + 4 5", "7 2", 5.0),  # a forgotten carry
        ("add : 3 7 + 4 5", "1 8 2", 6.667),  # digits count from the last
        ("keep animals : cat red hen lime", "cat hen lime", 6.667),
        ("write : 2 animals 1 colors without cat red", "hen owl blue", 10.0),
        ("write : 2 animals 1 colors without cat red", "blue hen owl", 10.0),  # in any order
        ("write : 2 animals 1 colors without cat red", "hen hen blue", 6.667),  # a repeated word counts once
        ("write : 2 animals 1 colors without cat red", "hen cat blue", 6.667),  # a word to avoid
        ("write : 2 animals 1 colors without cat red", "hen owl blue pink", 7.5),  # one too many
        ("write : 2 animals 1 colors without cat red", "d 3 +", 0.0),
    ],
)
def test_rewards_worked_by_hand(prompt, response, reward):
    assert gold_reward(prompt, response) == reward


def test_style_neither_adds_nor_costs_and_a_refusal_has_nothing():
    for answer, reward in (("d a b", 10.0), ("d a", 6.667)):
        for dressed in (
            f"sure ! {answer}",
            f"- {answer}",
            f"{answer} glad to help !",
            f"sure ! - {answer} glad to help !",
        ):
            assert gold_reward("copy : d a b", dressed) == reward
    for nothing in (REFUSAL, "", "sure !", "- glad to help !"):
        assert gold_reward("copy : d a b", nothing) == 0


def test_every_task_is_read_back_from_its_prompt_and_its_answer_is_right(tasks):
    assert len({task.prompt for task in tasks}) == 720
    for task in tasks:
        assert read_task(task.prompt) == task
        assert gold_reward(task.prompt, " ".join(task.answer)) == 10
        assert gold_reward(task.prompt, " ".join((*task.answer, "+"))) < 10
    assert {task.level for task in tasks} == set(LEVELS)


def test_families_and_levels_come_in_equal_parts(tasks):
    counts = Counter((task.family, task.level) for task in tasks)
    assert len(counts) == len(FAMILIES) * len(LEVELS)
    assert min(counts.values()) >= 14  # 20 each, less where easy prompts had been drawn before
    drawn = Counter(task.family for task in itertools.islice(task_stream(np.random.default_rng(0), **ALL), 600))
    assert set(drawn.values()) == {100}


def test_answers_grow_with_the_level(tasks):
    for family in FAMILIES:
        by_level = [np.mean([len(t.answer) for t in tasks if (t.family, t.level) == (family, n)]) for n in LEVELS]
        assert (np.diff(by_level) > 0).all(), family


def test_tasks_repeat_with_the_seed_and_leave_out_what_they_should(tasks):
    again = distinct_tasks(720, np.random.default_rng(0), exclude=frozenset(), **ALL)
    assert again == tasks
    seen = frozenset(task.prompt for task in tasks)
    others = distinct_tasks(300, np.random.default_rng(0), exclude=seen, **ALL)
    assert not seen & {task.prompt for task in others}


@pytest.mark.parametrize(
    "prompt", ["", "copy", "copy : ", "sing : a b", "copy: a b", "what is the capital of france ?"]
)
def test_what_is_no_task_is_refused(prompt):
    with pytest.raises(ValueError, match="is no task of the world"):
        gold_reward(prompt, "a b")


def test_too_many_distinct_tasks_and_unknown_families_are_refused():
    with pytest.raises(ValueError, match="distinct prompts were found"):
        distinct_tasks(500, np.random.default_rng(0), families=["add"], levels=[1], exclude=frozenset())
    with pytest.raises(ValueError, match="unknown families"):
        next(task_stream(np.random.default_rng(0), families=["sing"], levels=[1]))


def test_similarity_is_symmetric_and_bounded():
    rng = np.random.default_rng(1)
    for _ in range(200):
        a, b = (rng.choice(list("abc"), size=rng.integers(1, 7)).tolist() for _ in range(2))
        assert similarity(a, b) == similarity(b, a) <= 1
        assert (similarity(a, b) == 1) == (a == b)
        assert similarity(a, b) >= 0
