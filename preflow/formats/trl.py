"""TRL preference data: chosen and rejected, as text or as messages, with an explicit or an implicit prompt.

Taken too: RewardBench (chosen_model, rejected_model) and a plain table with the columns chosen and rejected.
https://huggingface.co/docs/trl/dataset_formats#preference
"""

from collections.abc import Iterator
from typing import Any

from preflow.formats.base import (
    Message,
    RecordFormat,
    Row,
    RowError,
    Value,
    Vote,
    as_messages,
    as_prompt,
    number,
    optional_text,
    present,
    rest,
    text,
)
from preflow.formats.hh import is_transcript_pair

COLUMNS = ("prompt", "chosen", "rejected", "score_chosen", "score_rejected", "chosen_model", "rejected_model")


class TrlPreference(RecordFormat):
    """Implicit prompts are split at whole turns only: two strings are two responses without a prompt."""

    name = "trl"
    fields = "chosen, rejected (strings or messages); prompt, chosen_model, rejected_model optional"

    def matches(self, value: Value) -> bool:
        """Chosen and rejected that no more special format claims."""
        return {"chosen", "rejected"} <= value.keys() and not (is_transcript_pair(value) or "score_chosen" in value)

    def rows(self, value: Value) -> Iterator[Row]:
        """One labelled comparison."""
        yield preferred(value)


def preferred(value: Value) -> Row:
    """The comparison of chosen (a) with rejected (b), labelled by the data set."""
    chosen, rejected = present(value, "chosen"), present(value, "rejected")
    given = value.get("prompt")
    if isinstance(chosen, str):
        prompt, responses = as_prompt("" if given is None else given), (chosen, text(value, "rejected"))
    else:
        prompt, responses = split_turns(chosen, rejected, given)
    return Row(
        prompt=prompt,
        response_a=responses[0],
        response_b=responses[1],
        votes=[Vote(choice="a", kind="label")],
        score_a=number(value, "score_chosen"),
        score_b=number(value, "score_rejected"),
        model_a=optional_text(value, "chosen_model"),
        model_b=optional_text(value, "rejected_model"),
        extra=rest(value, *COLUMNS),
        flags=["message_fields_dropped"] if _more_than_text(chosen) or _more_than_text(rejected) else [],
    )


def split_turns(chosen: Any, rejected: Any, given: Any) -> tuple[list[Message], tuple[str, str]]:
    """The turns that both conversations share, after those of an explicit prompt, and the one reply of each."""
    one, other = as_messages(chosen, "chosen"), as_messages(rejected, "rejected")
    if not one or not other:
        raise RowError("empty_response", f"{'rejected' if one else 'chosen'} has no message")
    shared = 0
    while shared < min(len(one), len(other)) - 1 and one[shared] == other[shared]:
        shared += 1
    if len(one) - shared > 1 or len(other) - shared > 1:
        raise RowError(
            "diverges_before_last_turn", f"the conversations part at turn {shared + 1}, before their replies"
        )
    for reply in (one[-1], other[-1]):
        if reply["role"] != "assistant":
            raise RowError("unknown_role", f"the last turn is by {reply['role']!r}, not by the assistant")
    return _joined(as_prompt("" if given is None else given), one[:-1]), (one[-1]["content"], other[-1]["content"])


def _joined(given: list[Message], turns: list[Message]) -> list[Message]:
    """An explicit prompt repeats turns at the start or the end of chosen's, or comes before them."""
    repeated = given in (turns[: len(given)], turns[-len(given) :])
    return turns if repeated else given + turns


def _more_than_text(messages: Any) -> bool:
    return isinstance(messages, list) and any(message.keys() - {"role", "content"} for message in messages)
