"""How a response of the world is dressed: what some annotators like or dislike and the gold reward ignores."""

from dataclasses import dataclass

OPENER = ("sure", "!")
BULLET = ("-",)
CLOSER = ("glad", "to", "help", "!")
REFUSAL = "i'm sorry"


@dataclass(frozen=True)
class Style:
    """What is put around an answer."""

    opener: bool
    bullet: bool
    closer: bool


def dressed(answer: tuple[str, ...], style: Style) -> str:
    """A response: the answer's words with the style around them."""
    words = (*OPENER * style.opener, *BULLET * style.bullet, *answer, *CLOSER * style.closer)
    return " ".join(words)


def bare(response: str) -> tuple[str, ...]:
    """The words of a response without its style; none for a refusal."""
    if response.startswith(REFUSAL):
        return ()
    words = tuple(response.split())
    for before in (OPENER, BULLET):
        words = words[len(before) :] if words[: len(before)] == before else words
    return words[: -len(CLOSER)] if words[-len(CLOSER) :] == CLOSER else words
