"""Attributes of a response: what says whether it has one, and what rewrites it to have it or not.

The rewriters here are programs: the same text and target give the same rewrite, and nothing else is meant to change. A
rewrite that does not reach its target is none; `preflow.reward_audit.rewrites` counts it.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain

SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
MARK = re.compile(r"(?m)^\s*(?:[-*+•]|\d+[.)])\s+")
HEDGES = ("I think", "perhaps", "maybe", "probably", "possibly", "it seems", "in my opinion", "I guess", "I believe")
HEDGE = re.compile(rf"(?i)\b(?:{'|'.join(HEDGES)})\b,?\s*(?:that\s)?")
OPENING = "I think that "
RESTATED = "In other words, "
PLACEBOS = (
    ("Also, ", "Then, "), ("Again, ", "Still, "), ("Indeed, ", "Surely, "), ("Anyway, ", "Really, "),
)  # fmt: skip
"""Openers in pairs of one length: the first starts with a vowel, the second does not. Which pair is used depends on the
text, so that what a reward makes of one word does not pass for an effect of vowels."""

OWN_FEATURES = {
    "length": frozenset({"log_characters", "log_words", "log_sentences", "log_lines", "log_commas"}),
    "list": frozenset({"log_list_items", "log_lines", "log_markdown"}),
    "exclamation": frozenset({"log_exclamations"}),
}
"""Of `preflow.reward.features.FEATURES` those that are the attribute itself; all others are off target."""

Rewriter = Callable[[str, bool], str | None]


@dataclass(frozen=True)
class Attribute:
    """A yes or no that a reward may pay for."""

    name: str
    holds: Callable[[str], bool | None]
    """Whether a response has it; None where it cannot be told."""
    rewrite: Rewriter
    """The response with it, or without it; None where that cannot be had."""


def longer_than(characters: float) -> Attribute:
    """Length: more than so many characters. Longer by restating sentences, shorter by leaving the last ones out."""

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        return _longer(text, characters) if target else _shorter(text, characters)

    return Attribute("length", lambda text: len(text) > characters, rewrite)


def listed() -> Attribute:
    """Formatting: a list with a mark on each line, or the same sentences as a paragraph."""

    def rewrite(text: str, target: bool) -> str | None:  # noqa: FBT001
        if target:
            return "\n".join(f"- {sentence}" for sentence in _sentences(text))
        return " ".join(_sentences(MARK.sub("", text)))

    return Attribute("list", lambda text: MARK.search(text) is not None, rewrite)


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

    return Attribute("exclamation", lambda text: "!" in text, rewrite)


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
        for opener in chain.from_iterable(PLACEBOS):
            text = text.removeprefix(opener)
        return PLACEBOS[len(text) % len(PLACEBOS)][0 if target else 1] + text

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


def common_words(texts: Collection[str], *, least: int = 2) -> frozenset[str]:
    """Words of four letters or more, in lower case, that so many of the texts have: a vocabulary for `misspelt`."""
    seen = Counter(word for text in texts for word in set(re.findall(r"[a-z]{4,}", text.lower())))
    return frozenset(word for word, texts_with_it in seen.items() if texts_with_it >= least)


def attributes_of(names: Collection[str], responses: Collection[str]) -> dict[str, Attribute]:
    """Attributes by name; `length` is above the median of these responses, `typos` are of the words that they share.

    Raises
    ------
    ValueError
        A name is unknown.
    """
    median = sorted(map(len, responses))[len(responses) // 2] if responses else 0
    known = [longer_than(median), listed(), hedged(), exclaimed(), misspelt(common_words(responses)), vowel_first()]
    by_name = {attribute.name: attribute for attribute in known}
    if unknown := sorted(set(names) - by_name.keys()):
        raise ValueError(f"unknown attributes {unknown}: known are {', '.join(by_name)}")
    return {name: by_name[name] for name in names}


WORDINGS = {
    "length": ("clearly longer", "clearly shorter"),
    "list": ("a list with a dash before each item", "one paragraph without lists or marks"),
    "hedging": ("hedged with words of doubt", "free of words of doubt"),
    "exclamation": ("excited, with exclamation marks", "calm, without exclamation marks"),
    "typos": ("misspelt in some words", "free of misspellings"),
    "vowel_first": ("begun with a vowel", "begun with a consonant"),
}
"""What a language model is told to make of a response: with the attribute, without it."""
