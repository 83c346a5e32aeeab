"""Instructions whose fulfilment a program can check, with a gold score from 0 to 10 for any response.

Five families in the spirit of IFEval (Zhou et al. 2023, "Instruction-Following Evaluation for Large Language Models"),
here with graded instead of yes/no scores, so that a preference between two imperfect responses has a truth. The score
measures the stated constraint alone: not style, not facts beyond the arithmetic, not usefulness.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

TOP_SCORE = 10.0

# A topic and words that an answer about it may well contain.
TOPICS: Mapping[str, tuple[str, ...]] = {
    "rivers": ("water", "fish", "flow", "sea", "valley"),
    "bread": ("flour", "oven", "yeast", "water", "crust"),
    "the moon": ("night", "earth", "light", "sky", "tide"),
    "bicycles": ("wheel", "road", "ride", "pedal", "chain"),
    "winter": ("snow", "cold", "ice", "coat", "warm"),
    "libraries": ("books", "read", "quiet", "learn", "shelf"),
    "coffee": ("cup", "morning", "beans", "bitter", "milk"),
    "bees": ("honey", "flower", "hive", "garden", "wings"),
    "trains": ("station", "track", "travel", "fast", "ticket"),
    "gardens": ("plants", "soil", "water", "flowers", "sun"),
    "music": ("sound", "song", "rhythm", "listen", "dance"),
    "volcanoes": ("lava", "hot", "mountain", "ash", "rock"),
    "cats": ("fur", "sleep", "play", "mouse", "pet"),
    "the ocean": ("waves", "salt", "fish", "deep", "blue"),
    "chess": ("king", "board", "game", "move", "think"),
    "rain": ("clouds", "water", "umbrella", "wet", "plants"),
    "apples": ("tree", "fruit", "red", "sweet", "juice"),
    "teachers": ("school", "learn", "students", "help", "lesson"),
    "bridges": ("river", "steel", "cross", "road", "build"),
    "sleep": ("rest", "night", "dream", "bed", "health"),
    "deserts": ("sand", "dry", "hot", "camel", "water"),
    "football": ("ball", "team", "goal", "play", "field"),
    "clocks": ("time", "hands", "hour", "wall", "minute"),
    "forests": ("trees", "animals", "green", "wood", "shade"),
    "soup": ("bowl", "hot", "spoon", "vegetables", "salt"),
    "maps": ("roads", "north", "city", "find", "travel"),
    "dogs": ("loyal", "walk", "tail", "friend", "pet"),
    "painting": ("color", "brush", "canvas", "art", "paper"),
    "airplanes": ("wings", "sky", "pilot", "fly", "travel"),
    "mountains": ("snow", "climb", "high", "rock", "view"),
    "computers": ("screen", "data", "keyboard", "work", "code"),
    "tea": ("leaves", "cup", "hot", "drink", "sugar"),
    "swimming": ("pool", "water", "arms", "breath", "summer"),
    "farms": ("animals", "food", "field", "cows", "grow"),
    "friendship": ("trust", "share", "laugh", "help", "time"),
    "spiders": ("web", "legs", "insects", "silk", "small"),
    "the sun": ("light", "heat", "star", "day", "planet"),
    "markets": ("buy", "fruit", "people", "price", "fresh"),
    "letters": ("paper", "write", "stamp", "friend", "words"),
    "glass": ("window", "clear", "break", "sand", "light"),
}
OPENINGS = ("In short,", "Once upon a time,", "Dear reader,", "To begin with,", "As we all know,", "Good morning!")
ENDINGS = ("That is all.", "The end.", "What do you think?", "Now you know.", "Thank you for reading.", "See you soon!")
NAMES = ("Tom", "Anna", "Ravi", "Mei", "Lucas", "Fatima", "Olga", "Sam", "Ines", "Kofi")
ITEMS = ("apples", "books", "coins", "shells", "pencils", "stickers", "eggs", "marbles", "cards", "tickets")


@dataclass(frozen=True)
class Instruction:
    """A prompt and the constraint that its responses are measured by: keyword arguments of the family's score."""

    family: str
    prompt: str
    constraint: dict[str, Any]


def draw_instructions(n: int, rng: np.random.Generator) -> list[Instruction]:
    """`n` instructions with distinct prompts, the families in turn.

    Raises ValueError if the families cannot give that many distinct prompts in 20 tries each.
    """
    draws = [draw for draw, _ in FAMILIES.values()]
    found: dict[str, Instruction] = {}
    for _ in range(20 * n):
        if len(found) == n:
            break
        instruction = draws[len(found) % len(draws)](rng)
        found.setdefault(instruction.prompt, instruction)
    if len(found) < n:
        raise ValueError(f"only {len(found)} of {n} distinct instructions were found: ask for fewer or add topics")
    return list(found.values())


def gold_score(family: str, constraint: Mapping[str, Any], response: str) -> float:
    """Programmatic gold score of a response, from 0 (ignores the constraint, or is empty) to 10 (fulfils it).

    Raises ValueError for a family that is not one of FAMILIES.
    """
    if family not in FAMILIES:
        raise ValueError(f"unknown family {family!r}: known are {', '.join(FAMILIES)}")
    if not response.strip():
        return 0.0
    _, score = FAMILIES[family]
    return round(score(response.strip(), **constraint), 3)


def _pick(options: tuple[str, ...], rng: np.random.Generator) -> str:
    return options[rng.integers(len(options))]


def _topic(rng: np.random.Generator) -> str:
    return _pick(tuple(TOPICS), rng)


def words(text: str) -> list[str]:
    """The words of a text: runs of letters and digits, with inner apostrophes and hyphens."""
    return re.findall(r"\w+(?:['\u2019-]\w+)*", text)


# length ---------------------------------------------------------------------------------------------------------------


def draw_length(rng: np.random.Generator) -> Instruction:
    """A number of words: at most, at least, exactly or between."""
    topic, n = _topic(rng), int(rng.integers(6, 26))
    prompt, at_least, at_most = (
        (f"Tell me about {topic} in at most {n} words.", 1, n),
        (f"Write at least {n} words about {topic}.", n, None),
        (f"Describe {topic} in exactly {n} words.", n, n),
        (f"Write a text about {topic} that is between {n} and {n + 10} words long.", n, n + 10),
    )[rng.integers(4)]
    return Instruction("length", prompt, {"at_least": at_least, "at_most": at_most})


def score_length(response: str, *, at_least: int, at_most: int | None) -> float:
    """10 inside the bounds (in words), falling to 0 where the response is off by the whole bound."""
    n = len(words(response))
    if n < at_least:
        return TOP_SCORE * n / at_least
    if at_most is not None and n > at_most:
        return TOP_SCORE * max(0.0, 1 - (n - at_most) / at_most)
    return TOP_SCORE


# keywords -------------------------------------------------------------------------------------------------------------


def draw_keywords(rng: np.random.Generator) -> Instruction:
    """Two or three words to use and one to avoid."""
    topic = _topic(rng)
    related = [str(word) for word in rng.permutation(TOPICS[topic])]
    include, exclude = related[: rng.integers(2, 4)], related[-1]
    listed = ", ".join(f'"{word}"' for word in include)
    prompt = _pick(
        (
            f'Write one or two sentences about {topic}. Use the words {listed}. Do not use the word "{exclude}".',
            f'In one sentence, say something about {topic} with the words {listed} but without the word "{exclude}".',
        ),
        rng,
    )
    return Instruction("keywords", prompt, {"include": include, "exclude": [exclude]})


def score_keywords(response: str, *, include: list[str], exclude: list[str]) -> float:
    """10 times the share of words that are treated as asked (whole words, capitals ignored)."""
    used = {word.lower() for word in words(response)}
    kept = sum(word.lower() in used for word in include) + sum(word.lower() not in used for word in exclude)
    return TOP_SCORE * kept / (len(include) + len(exclude))


# format ---------------------------------------------------------------------------------------------------------------


def draw_format(rng: np.random.Generator) -> Instruction:
    """A bullet list, a numbered list, a JSON object or capital letters."""
    topic, n = _topic(rng), int(rng.integers(2, 6))
    keys = [str(key) for key in rng.permutation(["name", "color", "place", "size", "use"])[:2]]
    quoted = " and ".join(f'"{key}"' for key in keys)
    prompt, constraint = (
        (
            f'Give {n} short facts about {topic} as a list. Start every line with "- ".',
            {"style": "bullets", "items": n},
        ),
        (f"Write a numbered list of {n} words that have to do with {topic}.", {"style": "numbered", "items": n}),
        (
            f"Describe {topic} as a JSON object with the keys {quoted}. Only JSON.",
            {"style": "json", "keys": keys},
        ),
        (f"Write one sentence about {topic} in CAPITAL LETTERS ONLY.", {"style": "capitals"}),
    )[rng.integers(4)]
    return Instruction("format", prompt, constraint)


def score_format(response: str, *, style: str, items: int = 0, keys: tuple[str, ...] = ()) -> float:
    """The score of the style; `items` belongs to the two lists, `keys` to the JSON object."""
    if style == "bullets":
        return _score_list(response, r"- \S", items)
    if style == "numbered":
        return _score_list(response, r"\d+[.)] ?\S", items)
    if style == "json":
        return _score_json(response, keys)
    if style == "capitals":
        letters = [c for c in response if c.isalpha()]
        return TOP_SCORE * sum(c.isupper() for c in letters) / max(1, len(letters))
    raise ValueError(f"unknown style {style!r}: known are bullets, numbered, json, capitals")


def _score_list(response: str, mark: str, items: int) -> float:
    """10 times the share of lines that are items, less the relative error of their number."""
    lines = [line.strip() for line in response.splitlines() if line.strip()]
    found = sum(re.match(mark, line) is not None for line in lines)
    return TOP_SCORE * found / len(lines) * max(0.0, 1 - abs(found - items) / items)


def _score_json(response: str, keys: tuple[str, ...]) -> float:
    """4 for an object that parses, 4 for exactly the keys, 2 for nothing around it; else up to 2 for named keys."""
    span = re.search(r"\{.*\}", response, re.DOTALL)
    try:
        value = json.loads(span.group()) if span else None
    except json.JSONDecodeError:
        value = None
    if span is None or value is None:
        return 2 * sum(f'"{key}"' in response for key in keys) / len(keys)
    matched = len(set(keys) & set(value)) / len(set(keys) | set(value))
    return 4 + 4 * matched + 2 * (span.group() == response)


# arithmetic -----------------------------------------------------------------------------------------------------------


def draw_arithmetic(rng: np.random.Generator) -> Instruction:
    """A sum, difference or product of small numbers, bare or told as a story."""
    a, b = int(rng.integers(4, 13)), int(rng.integers(2, 10))
    a, b = max(a, b), min(a, b)
    name, items = _pick(NAMES, rng), _pick(ITEMS, rng)
    story, result = (
        (f"What is {a} + {b}?", a + b),
        (f"What is {a} minus {b}?", a - b),
        (f"What is {b} times {a}?", a * b),
        (f"{name} has {a} {items} and gets {b} more. How many {items} does {name} have now?", a + b),
        (f"{name} had {a} {items} and lost {b} of them. How many {items} are left?", a - b),
        (f"{name} buys {b} boxes with {a} {items} in each. How many {items} is that?", a * b),
    )[rng.integers(6)]
    demand = _pick(("Answer with the number only.", "Answer in one short sentence.", "Be brief."), rng)
    return Instruction("arithmetic", f"{story} {demand}", {"result": result, "at_most": 12})


def score_arithmetic(response: str, *, result: int, at_most: int) -> float:
    """8 if the last number of the response is the result, 2 if it has at most `at_most` words."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", response.replace(",", ""))
    right = bool(numbers) and float(numbers[-1]) == result
    return 8.0 * right + 2.0 * (len(words(response)) <= at_most)


# phrases --------------------------------------------------------------------------------------------------------------


def draw_phrases(rng: np.random.Generator) -> Instruction:
    """A phrase to open with and one to close with."""
    topic, start, end = _topic(rng), _pick(OPENINGS, rng), _pick(ENDINGS, rng)
    prompt = _pick(
        (
            f'Write one short sentence about {topic}. Start your answer with "{start}" and end it with "{end}"',
            f'Begin with "{start}" then say one thing about {topic} and finish with "{end}"',
        ),
        rng,
    )
    return Instruction("phrases", prompt, {"start": start, "end": end})


def score_phrases(response: str, *, start: str, end: str) -> float:
    """5 for each phrase in its place, 2 for one that stands elsewhere (capitals and outer quotation marks ignored)."""
    text, start, end = response.strip("\"' \n").lower(), start.lower(), end.lower()
    opening = 5.0 if text.startswith(start) else 2.0 * (start in text)
    closing = 5.0 if text.endswith(end) else 2.0 * (end in text)
    return opening + closing


FAMILIES: dict[str, tuple[Callable[[np.random.Generator], Instruction], Callable[..., float]]] = {
    "length": (draw_length, score_length),
    "keywords": (draw_keywords, score_keywords),
    "format": (draw_format, score_format),
    "arithmetic": (draw_arithmetic, score_arithmetic),
    "phrases": (draw_phrases, score_phrases),
}
