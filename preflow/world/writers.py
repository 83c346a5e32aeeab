"""Responses made by rule: right or corrupted in a known way, in a style drawn at random."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from preflow.world.style import REFUSAL, Style, dressed
from preflow.world.tasks import DIGITS, KIND_OF, LETTERS, LEVELS, TOP_REWARD, Task, gold_reward

Words = tuple[str, ...]
Message = dict[str, str]


@dataclass(frozen=True)
class Answer:
    """A response and who wrote it."""

    prompt: str
    text: str
    writer: str


@dataclass(frozen=True)
class Habits:
    """How often a writer does what; probabilities.

    Raises
    ------
    ValueError
        `error` is 1 or more: the errors would never end.
    """

    error: float
    """An answer is corrupted, at the highest level; in proportion at lower ones. After an error another may follow."""
    cut: float
    """An answer breaks off halfway, at the highest level; in proportion at lower ones."""
    refusal: float
    """A task is declined, at the highest level; in proportion at lower ones."""
    style: float
    """An answer has an opener; a bullet; a closer."""

    def __post_init__(self) -> None:
        if not 0 <= self.error < 1:
            raise ValueError(f"error is {self.error}, but it has to be at least 0 and below 1, or errors never end")


def write(task: Task, habits: Habits, rng: np.random.Generator) -> str:
    """A response to a task."""
    hardness = task.level / max(LEVELS)
    if rng.random() < habits.refusal * hardness:
        return REFUSAL
    answer = task.answer
    while rng.random() < habits.error * hardness:
        answer = corrupted(answer, str(rng.choice(SLIPS)), rng)
    if rng.random() < habits.cut * hardness:
        answer = corrupted(answer, "cut", rng)
    return dressed(answer, _style(habits.style, rng))


def demonstrations(
    tasks: Iterable[Task], habits: Habits, rng: np.random.Generator, *, system_share: float, true_share: float
) -> list[tuple[list[Message], str]]:
    """A prompt and a response for each task.

    Parameters
    ----------
    system_share
        Share of the prompts that open with a system turn like "score: 7".
    true_share
        Share of those whose score is the gold reward of the response, in whole numbers; the others state any number.
        So the policy knows more or less of what a score is, as a pretrained model does; at 0 it knows to ignore it.
    """
    responses = [(task, write(task, habits, rng)) for task in tasks]
    return [
        ([*_system(task, response, rng, system_share, true_share), {"role": "user", "content": task.prompt}], response)
        for task, response in responses
    ]


def _system(
    task: Task, response: str, rng: np.random.Generator, system_share: float, true_share: float
) -> list[Message]:
    stated, true = rng.random(2) < (system_share, true_share)
    anything = rng.integers(int(TOP_REWARD) + 1)
    score = round(gold_reward(task.prompt, response)) if true else anything
    return [{"role": "system", "content": f"score: {score}"}] if stated else []


def corrupted_answers(
    tasks: Iterable[Task], *, errors: Sequence[int], style: float, rng: np.random.Generator
) -> list[Answer]:
    """An answer to each task with errors of one kind, as many as one of `errors` says; they may cancel out."""
    answers = []
    for task in tasks:
        kind, n = str(rng.choice(list(CORRUPTIONS))), int(rng.choice(errors))
        words = task.answer
        for _ in range(n):
            words = corrupted(words, kind, rng)
        answers.append(Answer(task.prompt, dressed(words, _style(style, rng)), f"{kind}@{n}"))
    return answers


def _style(share: float, rng: np.random.Generator) -> Style:
    opener, bullet, closer = (rng.random(3) < share).tolist()
    return Style(opener, bullet, closer)


def corrupted(answer: Words, corruption: str, rng: np.random.Generator) -> Words:
    """The answer with one error of a kind named in CORRUPTIONS; an answer too short for the error stays as it is."""
    return CORRUPTIONS[corruption](answer, rng)


def _swap(answer: Words, rng: np.random.Generator) -> Words:
    """Two neighbours change places."""
    if len(answer) < 2:
        return answer
    i = int(rng.integers(len(answer) - 1))
    return (*answer[:i], answer[i + 1], answer[i], *answer[i + 2 :])


def _drop(answer: Words, rng: np.random.Generator) -> Words:
    """A word is left out."""
    i = int(rng.integers(len(answer)))
    return (*answer[:i], *answer[i + 1 :]) if len(answer) > 1 else answer


def _repeat(answer: Words, rng: np.random.Generator) -> Words:
    """A word stands twice."""
    i = int(rng.integers(len(answer)))
    return (*answer[: i + 1], *answer[i:])


def _off_by_one(answer: Words, rng: np.random.Generator) -> Words:
    """A word becomes the next of its kind: a digit one more, a letter the one after it."""
    i = int(rng.integers(len(answer)))
    order = next(words for words in ORDERS if answer[i] in words)
    return (*answer[:i], order[(order.index(answer[i]) + 1) % len(order)], *answer[i + 1 :])


def _cut(answer: Words, rng: np.random.Generator) -> Words:  # noqa: ARG001
    """The second half is missing."""
    return answer[: (len(answer) + 1) // 2]


ORDERS = (LETTERS, DIGITS, tuple(KIND_OF))
CORRUPTIONS: Mapping[str, Callable[[Words, np.random.Generator], Words]] = {
    "swap": _swap,
    "drop": _drop,
    "repeat": _repeat,
    "off_by_one": _off_by_one,
    "cut": _cut,
}
SLIPS = ("swap", "drop", "repeat", "off_by_one")
