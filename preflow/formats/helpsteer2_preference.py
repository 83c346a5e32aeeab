"""HelpSteer2-Preference (NVIDIA): two responses, and preferences from -3 (the first) to 3 (the second)."""

import ast
from collections.abc import Iterator
from typing import Any

from preflow.formats.base import (
    RecordFormat,
    Row,
    RowError,
    Value,
    Vote,
    as_json,
    optional_text,
    present,
    rest,
    text,
    votes_of,
)
from preflow.formats.helpsteer import turns

NEITHER = -100  # neither response is valid


class HelpSteer2Preference(RecordFormat):
    """Annotators are anonymous: they are told apart only by their place in the list of one comparison."""

    name = "helpsteer2_preference"
    fields = "prompt, response_1, response_2, preference_strength (-3 to 3); all_preferences_unprocessed optional"

    def matches(self, value: Value) -> bool:
        """Two responses and a preference strength."""
        return {"prompt", "response_1", "response_2", "preference_strength"} <= value.keys()

    def rows(self, value: Value) -> Iterator[Row]:
        """One comparison, with all raw preferences where the file has them, else with the published one."""
        raw = listed(value, "all_preferences_unprocessed") or listed(value, "three_most_similar_preferences")
        votes, refused = votes_of(enumerate(raw, 1), _vote) if raw else ([Vote(kind="label", **_preference(value))], [])
        if not votes:
            raise RowError("invalid_annotations", "no annotator found both responses valid")
        yield Row(
            prompt=turns(text(value, "prompt")),
            response_a=text(value, "response_1"),
            response_b=text(value, "response_2"),
            votes=votes,
            refused_votes=refused,
            extra=rest(value, "prompt", "response_1", "response_2", "all_preferences_unprocessed"),
        )


def listed(value: Value, key: str) -> list[Any]:
    """The list under a key, which some exports hold as the text of a Python literal; empty where it is absent."""
    found = value.get(key) or []
    if isinstance(found, str):
        try:
            found = ast.literal_eval(found)
            as_json(found).encode()
        except UnicodeEncodeError as error:
            raise RowError("lone_surrogate", f"{key} holds half of a surrogate pair") from error
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise RowError("wrong_type", f"{key} is text that is no list: {found[:80]!r}") from error
    if not isinstance(found, list):
        raise RowError("wrong_type", f"{key} is {type(found).__name__}, not a list")
    return found


def _vote(place: tuple[int, Any]) -> Vote:
    position, preference = place
    reason = optional_text(preference, "justification") if isinstance(preference, dict) else None
    return Vote(annotator=f"annotator_{position}", reason=reason, **_preference(preference))


def _preference(value: Value) -> dict[str, Any]:
    key = "preference_strength" if isinstance(value, dict) and "preference_strength" in value else "strength"
    strength = present(value, key)
    if strength == NEITHER:
        raise RowError("invalid_annotations", f"{key} is {NEITHER}: neither response is valid")
    if isinstance(strength, bool) or strength not in range(-3, 4):
        raise RowError("unknown_choice", f"{key} is {strength!r}; known are -3 to 3 and {NEITHER}")
    return {"choice": "a" if strength < 0 else "b" if strength > 0 else "tie", "strength": abs(int(strength)) or None}
