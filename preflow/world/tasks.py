"""Tasks that a program can check, from trivial to beyond a tiny model, with a gold reward from 0 to 10.

A prompt says all there is to know of a task: family, difficulty, answer and reward are read from its text, so that they
need no column that travels with the feedback. Texts are words separated by spaces; a word is a letter, a digit, a sign
or one of the nouns of KINDS, so that every word is one token of the world's tokenizer.

=========  ==========================================  ====================  ===================================
family     prompt                                      size at level n       answer
=========  ==========================================  ====================  ===================================
copy       copy : d a b                                2 n letters           d a b
reverse    reverse : d a b                             2 n letters           b a d
sort       sort : d a b                                2 n letters           a b d
add        add : 3 7 + 4 5                             n digits a number     8 2
keep       keep animals : cat red hen                  2 n words             cat hen
write      write : 1 animals 1 colors without cat red  2 n words to write    any such words, none of them twice
=========  ==========================================  ====================  ===================================
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from preflow.world.style import bare

TOP_REWARD = 10.0
LEVELS = (1, 2, 3, 4, 5, 6)
LETTERS = tuple("abcdefghijkl")
DIGITS = tuple("0123456789")
KINDS: Mapping[str, tuple[str, ...]] = {
    "animals": ("ant", "bear", "cat", "deer", "fox", "hen", "owl", "pig"),
    "colors": ("black", "blue", "brown", "gold", "green", "pink", "red", "white"),
    "fruits": ("apple", "cherry", "fig", "lemon", "lime", "mango", "peach", "plum"),
}
KIND_OF = {word: kind for kind, words in KINDS.items() for word in words}

Words = Sequence[str]


@dataclass(frozen=True)
class Task:
    """A prompt, taken apart."""

    family: str
    demand: tuple[str, ...]
    """Words between the family's name and the colon."""
    body: tuple[str, ...]
    """Words after the colon."""

    @property
    def prompt(self) -> str:
        """The text of the user's turn."""
        return " ".join((self.family, *self.demand, ":", *self.body))

    @property
    def level(self) -> int:
        """How hard the task is, from 1: see the table above."""
        return FAMILIES[self.family].level(self)

    @cached_property
    def answer(self) -> tuple[str, ...]:
        """The right answer; the first of several for a writing task."""
        return FAMILIES[self.family].answer(self)


@dataclass(frozen=True)
class Family:
    """How tasks of one kind are made, measured, solved and rewarded."""

    draw: Callable[[int, np.random.Generator], tuple[Words, Words]]
    """Demand and body of a task of a level."""
    level: Callable[[Task], int]
    answer: Callable[[Task], tuple[str, ...]]
    share: Callable[[Task, Words], float]
    """How much of the task the words of a response fulfil, from 0 to 1."""


def task_stream(rng: np.random.Generator, *, families: Sequence[str], levels: Sequence[int]) -> Iterator[Task]:
    """Tasks without end, families and levels in turn; easy prompts repeat, there are not many of them.

    Raises
    ------
    ValueError
        A family is unknown.
    """
    if unknown := set(families) - FAMILIES.keys():
        raise ValueError(f"unknown families {sorted(unknown)}: known are {', '.join(FAMILIES)}")
    for level, family in itertools.cycle(itertools.product(levels, families)):
        demand, body = FAMILIES[family].draw(level, rng)
        yield Task(family, tuple(demand), tuple(body))


def distinct_tasks(
    n: int, rng: np.random.Generator, *, families: Sequence[str], levels: Sequence[int], exclude: frozenset[str]
) -> list[Task]:
    """`n` tasks with distinct prompts, none of them in `exclude`.

    Raises
    ------
    ValueError
        A family is unknown, or so many distinct prompts are not found in 20 tries each.
    """
    found: dict[str, Task] = {}
    for task in itertools.islice(task_stream(rng, families=families, levels=levels), 20 * n):
        if task.prompt not in exclude:
            found.setdefault(task.prompt, task)
        if len(found) == n:
            return list(found.values())
    raise ValueError(f"only {len(found)} of {n} distinct prompts were found: ask for fewer or for higher levels")


def read_task(prompt: str) -> Task:
    """The task that a prompt states.

    Raises
    ------
    ValueError
        The prompt is none of the forms above.
    """
    if not is_task(prompt):
        raise ValueError(f"{prompt[:80]!r} is no task of the world: known are {', '.join(FAMILIES)}")
    head, _, body = prompt.partition(" : ")
    family, *demand = head.split()
    return Task(family, tuple(demand), tuple(body.split()))


def is_task(prompt: str) -> bool:
    """Whether a prompt has one of the forms above."""
    head, colon, body = prompt.partition(" : ")
    return bool(colon and body.strip()) and (head.split() or [""])[0] in FAMILIES


def gold_reward(prompt: str, response: str) -> float:
    """Reward of any response to a task's prompt, from 0 to 10, in steps of 0.001.

    Style (an opener, a bullet, a closer) neither adds nor costs; a refusal or an empty answer has 0.

    Raises
    ------
    ValueError
        The prompt is no task.
    """
    task = read_task(prompt)
    words = bare(response)
    return round(TOP_REWARD * FAMILIES[task.family].share(task, words), 3) if words else 0.0


def _pick(options: Words, n: int, rng: np.random.Generator) -> list[str]:
    return [options[i] for i in rng.integers(len(options), size=n)]


def similarity(answer: Words, words: Words) -> float:
    """1 less the edit distance (insertions, deletions, substitutions) over the longer length."""
    row = list(range(len(words) + 1))
    for i, expected in enumerate(answer, 1):
        left, row[0] = row[0], i
        for j, found in enumerate(words, 1):
            left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, left + (expected != found))
    return 1 - row[-1] / max(len(answer), len(words))


def _similar(task: Task, words: Words) -> float:
    return similarity(task.answer, words)


# copy, reverse, sort --------------------------------------------------------------------------------------------------


def _draw_letters(level: int, rng: np.random.Generator) -> tuple[Words, Words]:
    return (), _pick(LETTERS, 2 * level, rng)


def _list_level(task: Task) -> int:
    return (len(task.body) + 1) // 2


# add ------------------------------------------------------------------------------------------------------------------


def _draw_sum(level: int, rng: np.random.Generator) -> tuple[Words, Words]:
    a, b = ([*_pick(DIGITS[1:], 1, rng), *_pick(DIGITS, level - 1, rng)] for _ in range(2))
    return (), [*a, "+", *b]


def _sum(task: Task) -> tuple[str, ...]:
    a, b = "".join(task.body).split("+")
    return tuple(str(int(a) + int(b)))


def _digits_right(task: Task, words: Words) -> float:
    """Share of digits that are right, counted from the last, as sums are carried."""
    right = sum(a == b for a, b in zip(reversed(task.answer), reversed(words), strict=False))
    return right / max(len(task.answer), len(words))


# keep -----------------------------------------------------------------------------------------------------------------


def _draw_mixture(level: int, rng: np.random.Generator) -> tuple[Words, Words]:
    kind = str(rng.choice(list(KINDS)))
    words = [*_pick(KINDS[kind], 1, rng), *_pick(tuple(KIND_OF), 2 * level - 1, rng)]
    return (kind,), [words[i] for i in rng.permutation(len(words))]


def _kept(task: Task) -> tuple[str, ...]:
    return tuple(word for word in task.body if KIND_OF.get(word) == task.demand[0])


# write ----------------------------------------------------------------------------------------------------------------

N_AVOIDED = 2
MOST_OF_A_KIND = 6  # two of the eight words of a kind may be ruled out


def _draw_writing(level: int, rng: np.random.Generator) -> tuple[Words, Words]:
    """Words of one kind at level 1, of two at 2 and 3, then of three; and two words to avoid."""
    kinds = [str(kind) for kind in rng.permutation(list(KINDS))[: 1 + level // 2]][:3]
    counts = rng.multinomial(2 * level, np.full(len(kinds), 1 / len(kinds)))
    while counts.min() < 1 or counts.max() > MOST_OF_A_KIND:
        counts = rng.multinomial(2 * level, np.full(len(kinds), 1 / len(kinds)))
    wanted = [word for n, kind in zip(counts, kinds, strict=True) for word in (str(n), kind)]
    candidates = [word for kind in kinds for word in KINDS[kind]]
    return (), [*wanted, "without", *rng.permutation(candidates)[:N_AVOIDED].tolist()]


def _wanted(task: Task) -> dict[str, int]:
    wanted = task.body[: task.body.index("without")]
    return {kind: int(n) for n, kind in zip(wanted[::2], wanted[1::2], strict=True)}


def _allowed(task: Task, kind: str) -> list[str]:
    avoided = task.body[task.body.index("without") :]
    return [word for word in KINDS[kind] if word not in avoided]


def _writing_level(task: Task) -> int:
    return (sum(_wanted(task).values()) + 1) // 2


def _written(task: Task) -> tuple[str, ...]:
    return tuple(word for kind, n in _wanted(task).items() for word in _allowed(task, kind)[:n])


def _demand_met(task: Task, words: Words) -> float:
    """Words that count, over the words wanted or written, whichever are more; a word counts once."""
    wanted = _wanted(task)
    counted = sum(min(n, len(set(words).intersection(_allowed(task, kind)))) for kind, n in wanted.items())
    return counted / max(sum(wanted.values()), len(words))


FAMILIES: Mapping[str, Family] = {
    "copy": Family(_draw_letters, _list_level, lambda task: task.body, _similar),
    "reverse": Family(_draw_letters, _list_level, lambda task: task.body[::-1], _similar),
    "sort": Family(_draw_letters, _list_level, lambda task: tuple(sorted(task.body)), _similar),
    "add": Family(_draw_sum, lambda task: len(task.body) // 2, _sum, _digits_right),
    "keep": Family(_draw_mixture, _list_level, _kept, _similar),
    "write": Family(_draw_writing, _writing_level, _written, _demand_met),
}
