import numpy as np
import pytest

from preflow.world.style import REFUSAL, bare
from preflow.world.tasks import FAMILIES, LEVELS, distinct_tasks, gold_reward
from preflow.world.writers import CORRUPTIONS, Habits, corrupted, corrupted_answers, demonstrations, write

FAULTLESS = Habits(error=0.0, cut=0.0, refusal=0.0, style=0.0)


@pytest.fixture(scope="module")
def tasks():
    return distinct_tasks(720, np.random.default_rng(0), families=list(FAMILIES), levels=LEVELS, exclude=frozenset())


@pytest.mark.parametrize(
    ("kind", "possible"),
    [
        ("swap", {("b", "a", "c"), ("a", "c", "b")}),
        ("drop", {("b", "c"), ("a", "c"), ("a", "b")}),
        ("repeat", {("a", "a", "b", "c"), ("a", "b", "b", "c"), ("a", "b", "c", "c")}),
        ("cut", {("a", "b")}),
        ("off_by_one", {("b", "b", "c"), ("a", "c", "c"), ("a", "b", "d")}),
    ],
)
def test_corruptions_are_all_that_they_can_be(kind, possible):
    rng = np.random.default_rng(0)
    assert {corrupted(("a", "b", "c"), kind, rng) for _ in range(100)} == possible


def test_corruptions_at_the_edge():
    rng = np.random.default_rng(0)
    assert corrupted(("9",), "off_by_one", rng) == ("0",)
    assert corrupted(("l",), "off_by_one", rng) == ("a",)
    assert corrupted(("plum",), "off_by_one", rng) == ("ant",)
    assert corrupted(("9",), "swap", rng) == corrupted(("9",), "drop", rng) == ("9",)


def test_more_errors_cost_more(tasks):
    rewards = {}
    for n in (0, 1, 2, 4):
        answers = corrupted_answers(tasks, errors=[n], style=0.3, rng=np.random.default_rng(1))
        rewards[n] = np.mean([gold_reward(answer.prompt, answer.text) for answer in answers])
    assert rewards[0] == 10
    assert rewards[0] > rewards[1] + 1 > rewards[2] + 1.5 > rewards[4] + 2
    writers = {answer.writer for answer in corrupted_answers(tasks, errors=[1], style=0, rng=np.random.default_rng(1))}
    assert writers == {f"{kind}@1" for kind in CORRUPTIONS}


def test_a_writer_has_its_habits_and_more_of_the_bad_ones_on_hard_tasks(tasks):
    rng = np.random.default_rng(2)
    assert all(write(task, FAULTLESS, rng) == " ".join(task.answer) for task in tasks)
    habits = Habits(error=0.5, cut=0.2, refusal=0.3, style=0.25)
    written = [(task.level, write(task, habits, rng)) for task in tasks for _ in range(5)]
    for level in LEVELS:
        texts = [text for at, text in written if at == level]
        assert np.mean([text == REFUSAL for text in texts]) == pytest.approx(0.3 * level / 6, abs=0.06)
    answers = [text for _, text in written if text != REFUSAL]
    for mark in ("sure !", "- ", "glad to help !"):
        assert np.mean([mark in text for text in answers]) == pytest.approx(0.25, abs=0.03)
    assert all(bare(text) for text in answers)


@pytest.mark.parametrize("true_share", [0.0, 0.6, 1.0])
def test_demonstrations_state_scores_of_which_a_share_is_true(tasks, true_share):
    habits = Habits(error=0.8, cut=0.2, refusal=0.1, style=0.0)
    made = demonstrations(tasks, habits, np.random.default_rng(3), system_share=0.7, true_share=true_share)
    assert [prompt[-1] for prompt, _ in made] == [{"role": "user", "content": task.prompt} for task in tasks]
    stated = [(prompt[0]["content"], gold_reward(prompt[-1]["content"], y)) for prompt, y in made if len(prompt) == 2]
    assert len(stated) / len(made) == pytest.approx(0.7, abs=0.06)
    true = np.mean([said == f"score: {round(reward)}" for said, reward in stated])
    assert true == pytest.approx(true_share + (1 - true_share) / 11, abs=0.06)


def test_writing_repeats_with_the_seed(tasks):
    habits = Habits(error=0.5, cut=0.2, refusal=0.1, style=0.2)
    made = [demonstrations(tasks, habits, np.random.default_rng(4), system_share=0.5, true_share=0.5) for _ in range(2)]
    assert made[0] == made[1]


def test_errors_without_end_are_refused():
    with pytest.raises(ValueError, match="below 1"):
        Habits(error=1.0, cut=0.0, refusal=0.0, style=0.0)
