"""What an adapter is, what it yields, and the few questions that adapters ask of a record."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from preflow.sources.records import Record, Refusal

Value = dict[str, Any]
Message = dict[str, str]


class RowError(ValueError):
    """A record or a vote that cannot be taken in: a named reason and what was found."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(slots=True, kw_only=True)
class Vote:
    """One judgement. `annotator=None` is the label of the data set itself."""

    choice: str
    annotator: str | None = None
    kind: str = "person"
    strength: int | None = None
    reason: str | None = None
    shown_first: str | None = None
    time: datetime | None = None
    seconds: float | None = None
    replicate: str = ""  # tells apart repeated judgements of one annotator that are otherwise equal
    file: str | None = None  # where the vote stands, if not where its row stands
    line: int | None = None


@dataclass(slots=True, kw_only=True)
class Row:
    """One comparison that a record states, in the record's own order."""

    prompt: list[Message]
    response_a: str
    response_b: str
    votes: list[Vote] = field(default_factory=list)
    refused_votes: list[Refusal] = field(default_factory=list)
    score_a: float | None = None
    score_b: float | None = None
    gold: str | None = None
    model_a: str | None = None
    model_b: str | None = None
    extra: Value = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    by_margin: bool = False  # the scores alone are the preference, so they must differ by the least margin


@dataclass(frozen=True, slots=True)
class Stated:
    """A row and the record that states it."""

    row: Row
    record: Record


class Format(ABC):
    """A way in which feedback is written down: how it is recognised, and how it is read."""

    name: ClassVar[str]
    fields: ClassVar[str]  # what it expects, in words: shown when nothing is recognised
    joined: ClassVar[bool] = False  # whether the files of one folder are one source

    @abstractmethod
    def matches(self, value: Value) -> bool:
        """Whether a record is of this format. Formats do not overlap."""

    def accompanies(self, value: Value) -> bool:  # noqa: ARG002
        """Whether a record belongs to a file that a joined format reads beside its main files."""
        return False

    @abstractmethod
    def read(self, main: Iterable[Record], beside: Iterable[Record]) -> Iterator[Stated | Refusal]:
        """The rows of a source, from the records of its main files and of the files beside them."""


class RecordFormat(Format):
    """A format in which each record states its rows alone."""

    @abstractmethod
    def rows(self, value: Value) -> Iterable[Row]:
        """The comparisons that a record states. Raises RowError for a record that states none."""

    def read(self, main: Iterable[Record], beside: Iterable[Record]) -> Iterator[Stated | Refusal]:  # noqa: ARG002
        """Record by record."""
        for record in main:
            yield from stated(record, self.rows)


def stated(record: Record, rows: Callable[[Value], Iterable[Row]]) -> Iterator[Stated | Refusal]:
    """The rows of one record, or its refusal as a whole if any of them cannot be made."""
    try:
        made = list(rows(record.value))
    except RowError as error:
        yield refusal(record, error)
    else:
        yield from (Stated(row, record) for row in made)


def refusal(record: Record, error: RowError, *, of_vote: bool = False) -> Refusal:
    """The refusal of a whole record, which is a row or a vote."""
    return Refusal(record.file, record.line, error.reason, error.detail, as_json(record.value), of_vote)


def votes_of(items: Iterable[Any], vote: Callable[[Any], Vote]) -> tuple[list[Vote], list[Refusal]]:
    """The votes of a row and those refused: one bad judgement does not cost the others."""
    votes: list[Vote] = []
    refused: list[Refusal] = []
    for item in items:
        try:
            votes.append(vote(item))
        except RowError as error:
            # No file: the vote stands where its row does.
            refused.append(Refusal("", 0, error.reason, error.detail, as_json(item), of_vote=True))
    return votes, refused


def add_judgements(row: Row, records: Iterable[Record], vote: Callable[[Record], Vote]) -> None:
    """Add the votes of a joined format, each a record of its own, and the refusals of those that cannot be made."""
    for record in records:
        try:
            row.votes.append(vote(record))
        except RowError as error:
            row.refused_votes.append(refusal(record, error, of_vote=True))


def text(value: Value, key: str) -> str:
    """The string under a key."""
    found = present(value, key)
    if not isinstance(found, str):
        raise RowError("wrong_type", f"{key} is {type(found).__name__}, not a string")
    return found


def present(value: Value, key: str) -> Any:
    """What stands under a key that must be there and not null."""
    if not isinstance(value, dict):
        raise RowError("wrong_type", f"{type(value).__name__} where an object with {key} was expected")
    if key not in value:
        raise RowError("missing_field", f"there is no {key}; the fields are {', '.join(map(str, value))}")
    if value[key] is None:
        raise RowError("null_field", f"{key} is null")
    return value[key]


def items(value: Value, key: str) -> list[Any]:
    """The list under a key; an absent or null one is empty."""
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise RowError("wrong_type", f"{key} is {type(found).__name__}, not a list")
    return found


def optional_text(value: Value, key: str) -> str | None:
    """The string under a key; None where it is absent, null or empty."""
    return text(value, key) or None if value.get(key) is not None else None


def identity(value: Value, key: str) -> str:
    """An id as a string: a whole number keeps all its digits."""
    found = present(value, key)
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise RowError("wrong_type", f"{key} is {found!r}, not an id")
    return str(found)


def number(value: Value, key: str) -> float | None:
    """The finite number under a key, written as a number or as digits; None where it is absent, null or empty."""
    found = value.get(key)
    if found is None or found == "":
        return None
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise RowError("wrong_type", f"{key} is {type(found).__name__}, not a number")
    try:
        parsed = float(found)
    except (ValueError, OverflowError) as error:
        raise RowError("wrong_type", f"{key} is {str(found)[:40]!r}, not a number") from error
    if not abs(parsed) < float("inf"):
        raise RowError("not_finite", f"{key} is {found}")
    return parsed


def choice(value: Value, key: str, meaning: Mapping[str, str]) -> str:
    """The verdict under a key, by its spelling (case ignored)."""
    found = present(value, key)
    spelled = str(found).lower()
    if isinstance(found, bool) or spelled not in meaning:
        raise RowError("unknown_choice", f"{key} is {str(found)[:80]!r}; known are {', '.join(meaning)}")
    return meaning[spelled]


def instant(value: Value, key: str) -> datetime | None:
    """The time under a key, in UTC: ISO 8601, ' UTC' allowed at the end; without a zone it is taken as UTC."""
    found = value.get(key)
    if found is None or found == "":
        return None
    try:
        time = found if isinstance(found, datetime) else datetime.fromisoformat(str(found).removesuffix(" UTC"))
    except ValueError as error:
        raise RowError("wrong_type", f"{key} is {str(found)[:40]!r}, not a time") from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def as_prompt(found: Any) -> list[Message]:
    """Chat messages from a string (one user turn; none if it is empty) or from messages."""
    if isinstance(found, str):
        return [{"role": "user", "content": found}] if found else []
    return as_messages(found, "prompt")


def as_messages(found: Any, key: str) -> list[Message]:
    """Chat messages as they stand: a role and a text each."""
    if not isinstance(found, list):
        raise RowError("wrong_type", f"{key} is {type(found).__name__}, not a string or a list of messages")
    return [{"role": text(message, "role"), "content": text(message, "content")} for message in found]


def rest(value: Value, *used: str) -> Value:
    """The fields that have no column of their own."""
    return {key: found for key, found in value.items() if key not in used}


def as_json(value: Any) -> str:
    """A value as JSON text; what JSON cannot express (times, bytes, NaN of a table) is written as a string."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_without_nan(value), ensure_ascii=False, default=str)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(found) for key, found in value.items()}
    if isinstance(value, list):
        return [_without_nan(found) for found in value]
    return str(value) if isinstance(value, float) and not abs(value) < float("inf") else value
