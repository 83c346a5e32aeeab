"""What a reader yields: a record, or the refusal of something that could not be read as one."""

from dataclasses import dataclass
from typing import Any


class FeedbackError(ValueError):
    """The feedback as a whole cannot be taken in: the message names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class Record:
    """A parsed value and where it stands."""

    value: Any
    file: str
    line: int  # line of the file, or element of its array or table, from 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was read but not taken in, and why."""

    file: str
    line: int  # 0: the file as a whole
    reason: str
    detail: str
    raw: str | None
    of_vote: bool = False  # a judgement was refused, not the row that it belongs to
