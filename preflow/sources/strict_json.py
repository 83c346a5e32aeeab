"""JSON as RFC 8259 and I-JSON (RFC 7493) have it: what Python's parser lets pass in silence is a named problem here."""

import json
import math
from typing import Any, NamedTuple

WHITESPACE = " \t\r\n"


class Problem(NamedTuple):
    """Why a value was refused."""

    reason: str
    detail: str


class StrictDecoder:
    """Parses JSON values and names duplicate keys, NaN and Infinity, overflowing numbers and lone surrogates."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._constant, parse_float=self._float
        )

    def line(self, text: str) -> tuple[Any, Problem | None]:
        """The one value that a line holds, and the first problem with it."""
        value, end, problem = self.value_at(text, _skip(text, 0))
        if problem is None and _skip(text, end) < len(text):
            problem = Problem("invalid_json", f"more text after the value, from column {end + 1}")
        return value, problem

    def value_at(self, text: str, start: int) -> tuple[Any, int, Problem | None]:
        """The value at `start`, where it ends, and the first problem with it; the end is -1 where there is no value."""
        self._problems.clear()
        try:
            value, end = self._decoder.raw_decode(text, start)
        except RecursionError:
            return None, -1, Problem("invalid_json", "nested too deeply to be read")
        except ValueError as error:  # also an integer of more than 4,300 digits
            return None, -1, Problem("invalid_json", str(error))
        problem = self._problems[0] if self._problems else _surrogates(value, text, start, end)
        return value, end, problem

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = sorted({key for key in keys if keys.count(key) > 1})
            self._problems.append(Problem("duplicate_keys", f"keys that stand twice in one object: {', '.join(twice)}"))
        return value

    def _constant(self, name: str) -> None:
        self._problems.append(Problem("invalid_json", f"{name} is not JSON"))

    def _float(self, digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            self._problems.append(Problem("not_finite", f"{digits[:40]} is beyond a double"))
        return number


def _skip(text: str, start: int) -> int:
    while start < len(text) and text[start] in WHITESPACE:
        start += 1
    return start


def _surrogates(value: Any, text: str, start: int, end: int) -> Problem | None:
    """Text that no UTF-8 file can hold: a lone surrogate escape, or (by surrogateescape) a byte that is not UTF-8."""
    span = text[start:end]
    if not span.isascii() and not _encodable(span):
        return Problem("invalid_utf8", "a byte that is not UTF-8")
    if "\\ud" in span.lower() and not _encodable(json.dumps(value, ensure_ascii=False)):
        return Problem("lone_surrogate", "half of a surrogate pair, which is no character")
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
