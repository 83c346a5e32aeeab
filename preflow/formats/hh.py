r"""Anthropic HH transcripts: two whole dialogues as text, turns opened by "\n\nHuman:" and "\n\nAssistant:".

The dialogues are split at the last "\n\nAssistant:" that both share. What people type may contain a marker too, so a
marker opens a turn only where the other party speaks; the row is then flagged `marker_in_body`.
"""

import os
import re
from collections.abc import Iterator

from preflow.formats.base import Message, RecordFormat, Row, RowError, Value, Vote, rest, text

TURN = re.compile(r"\n\n(Human|Assistant):")
REPLY = "\n\nAssistant:"
ROLES = {"Human": "user", "Assistant": "assistant"}


class HhTranscripts(RecordFormat):
    """Chosen and rejected as transcripts."""

    name = "hh"
    fields = r"chosen, rejected (transcripts with '\n\nHuman:' and '\n\nAssistant:' turns); a prompt, if in both"

    def matches(self, value: Value) -> bool:
        """Two transcripts, and no prompt that is not in them."""
        return is_transcript_pair(value)

    def rows(self, value: Value) -> Iterator[Row]:
        """One labelled comparison."""
        chosen, rejected = text(value, "chosen"), text(value, "rejected")
        shared = os.path.commonprefix([chosen, rejected])  # noqa: RUF071  (the characters are what is compared)
        split = shared.rfind(REPLY)
        if split < 0:
            raise RowError("no_shared_prompt", r"chosen and rejected share no '\n\nAssistant:' turn")
        prompt, flags = turns(shared[:split])
        replies = [_body(transcript[split + len(REPLY) :]) for transcript in (chosen, rejected)]
        if any(TURN.search(reply) for reply in replies):
            raise RowError("diverges_before_last_turn", "the transcripts part before their last reply")
        yield Row(
            prompt=prompt,
            response_a=replies[0],
            response_b=replies[1],
            votes=[Vote(choice="a", kind="label")],
            extra=rest(value, "chosen", "rejected", "prompt"),
            flags=flags,
        )


def is_transcript_pair(value: Value) -> bool:
    """Whether chosen and rejected are transcripts that carry their own prompt."""
    pair, given = (value.get("chosen"), value.get("rejected")), value.get("prompt") or ""
    return isinstance(given, str) and all(
        isinstance(one, str) and one.startswith(given) and TURN.match(one) and REPLY in one for one in pair
    )


def turns(transcript: str) -> tuple[list[Message], list[str]]:
    """The messages before a reply of the assistant, and the flags of the row."""
    messages: list[Message] = []
    parts = TURN.split(transcript)
    in_body = False
    if parts[0]:
        raise RowError("no_shared_prompt", f"text before the first turn: {parts[0][:80]!r}")
    for speaker, body in zip(parts[1::2], parts[2::2], strict=True):
        role = ROLES[speaker]
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n\n{speaker}:{body}"
            in_body = True
        else:
            messages.append({"role": role, "content": _body(body)})
    if len(messages) > 1 and messages[-1]["role"] == "assistant":  # a reply answers a person, so this was quoted
        quoted = messages.pop()
        messages[-1]["content"] += f"{REPLY} {quoted['content']}"
        in_body = True
    return messages, ["marker_in_body"] if in_body else []


def _body(part: str) -> str:
    return part.removeprefix(" ")  # the marker's own space
