"""Attributes of a response: what says whether it has one, and what rewrites it to have it or not.

The rewriters here are programs: the same text and target give the same rewrite, and nothing else is meant to change. A
rewrite that does not reach its target is none; `preflow.reward_audit.rewrites` counts it.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
MARK = re.compile(r"(?m)^\s*(?:[-*+•]|\d+[.)])\s+")
HEDGES = ("I think", "perhaps", "maybe", "probably", "possibly", "it seems", "in my opinion", "I guess", "I believe")
HEDGE = re.compile(rf"(?i)\b(?:{'|'.join(HEDGES)})\b,?\s*(?:that\s)?")
OPENING = "I think that "
RESTATED = "In other words, "
PLACEBOS = {True: "Also, ", False: "Then, "}
"""Openers of one length: one starts with a vowel, the other does not."""

LENGTHS = frozenset({"log_characters", "log_words", "log_sentences", "log_lines", "log_commas"})
"""Counts that grow with the length, whatever is said."""

Rewriter = Callable[[str, bool], str | None]


@dataclass(frozen=True)
class Attribute:
    """A yes or no that a reward may pay for."""

    name: str
    holds: Callable[[str], bool | None]
    """Whether a response has it; None where it cannot be told."""
    rewrite: Rewriter
    """The response with it, or without it; None where that cannot be had."""
    features: frozenset[str] = frozenset()
    """Of `preflow.reward.features.FEATURES` those that are the attribute itself; all others are off target."""


def longer_than(characters: float) -> Attribute:
    """Length: more than so many characters. Longer by restating sentences, shorter by leaving the last ones out."""

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        return _longer(text, characters) if target else _shorter(text, characters)

    return Attribute("length", lambda text: len(text) > characters, rewrite, LENGTHS)


def listed() -> Attribute:
    """Formatting: a list with a mark on each line, or the same sentences as a paragraph."""

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        if target:
            return "\n".join(f"- {sentence}" for sentence in _sentences(text))
        return " ".join(_sentences(MARK.sub("", text)))

    own = frozenset({"log_list_items", "log_lines", "log_markdown"})
    return Attribute("list", lambda text: MARK.search(text) is not None, rewrite, own)


def hedged() -> Attribute:
    """Hedging: a word of doubt, or none."""

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        plain = HEDGE.sub("", text).strip()
        if not plain:
            return None
        return OPENING + _lower_first(plain) if target else _upper_first(plain)

    return Attribute("hedging", lambda text: HEDGE.search(text) is not None, rewrite)


def exclaimed() -> Attribute:
    """Tone: exclamation marks, or full stops in their place."""

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        if not target:
            return re.sub(r"!+", ".", text)
        return re.sub(r"\.(?=\s|$)", "!", text) if re.search(r"\.(?=\s|$)", text) else text + "!"

    return Attribute("exclamation", lambda text: "!" in text, rewrite, frozenset({"log_exclamations"}))


def misspelt(vocabulary: Collection[str], *, share: float = 0.1) -> Attribute:
    """Typos: words that are a word of `vocabulary` (lower case) with two neighbouring letters swapped.

    Brought by swapping the middle of every `1 / share`-th word of four letters or more; taken away by swapping back.
    """
    known = frozenset(vocabulary)

    def mended(word: str) -> str:
        if word.lower() in known:
            return word
        swaps = (word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1))
        return next((swap for swap in swaps if swap.lower() in known), word)

    def holds(text: str) -> bool:
        return any(mended(word) != word for word in re.findall(r"[A-Za-z]{4,}", text))

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        if not target:
            return re.sub(r"[A-Za-z]{4,}", lambda found: mended(found[0]), text)
        words = [found for found in re.finditer(r"[A-Za-z]{4,}", text) if found[0].lower() in known]
        for found in words[:: max(1, round(1 / share))][::-1]:
            text = text[: found.start()] + _swapped(found[0]) + text[found.end() :]
        return text

    return Attribute("typos", holds, rewrite)


def vowel_first() -> Attribute:
    """A placebo: the first letter is a vowel. Openers of equal length change it."""

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        for opener in PLACEBOS.values():
            text = text.removeprefix(opener)
        return PLACEBOS[target] + text

    def holds(text: str) -> bool | None:
        letter = re.search(r"[A-Za-z]", text)
        return None if letter is None else letter[0].lower() in "aeiou"

    return Attribute("vowel_first", holds, rewrite)


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in SENTENCE.split(MARK.sub("", text)) if part.strip()]


def _shorter(text: str, characters: float) -> str | None:
    """Without the last sentences, or the last words of a lone one, until it is no longer than that."""
    if len(text) <= characters:
        return text
    parts, joint = _sentences(text), " "
    if len(parts[0]) > characters:
        parts = parts[0].split()
    while len(parts) > 1 and len(joint.join(parts)) > characters:
        parts.pop()
    kept = joint.join(parts)
    return kept if len(kept) <= characters else None


def _longer(text: str, characters: float) -> str | None:
    """With its sentences stated once more, from the first on, until it is longer than that."""
    sentences = _sentences(text)
    if not sentences:
        return None
    made, turn = text, 0
    while len(made) <= characters:
        again = _lower_first(sentences[turn % len(sentences)].removeprefix(RESTATED))
        made, turn = f"{made} {RESTATED}{again}", turn + 1
    return made


def _swapped(word: str) -> str:
    middle = len(word) // 2
    return word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :]


def _lower_first(text: str) -> str:
    return text if text[:2] in ("I ", "I'") else text[:1].lower() + text[1:]


def _upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]
