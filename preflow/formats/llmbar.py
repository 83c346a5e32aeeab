"""LLMBar: an instruction, two outputs and a gold label; judges' votes in a table beside the files, where there is one.

Zeng et al. (ICLR 2024), https://github.com/princeton-nlp/LLMBar. In the table of votes `winner` names an output of the
data set, whatever the order the judge saw: with it, every judge is as often right in one order as in the other, and
prefers the output that was shown first. An empty winner is a verdict that could not be parsed.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from preflow.formats.base import (
    Format,
    Row,
    RowError,
    Stated,
    Value,
    Vote,
    add_judgements,
    as_prompt,
    choice,
    identity,
    refusal,
    rest,
    stated,
    text,
)
from preflow.sources.records import Record, Refusal

LABELS = {"1": "a", "2": "b"}
ORDERS = {"swap = false": "a", "swap = true": "b"}


class LlmBar(Format):
    """A vote belongs to the item (from 0) of the file that its subset names."""

    name = "llmbar"
    fields = (
        "input, output_1, output_2, label (1, 2); beside: subset, item, evaluator, result_index, orientation, winner"
    )
    joined = True

    def matches(self, value: Value) -> bool:
        """Two outputs and a label."""
        return {"input", "output_1", "output_2", "label"} <= value.keys()

    def accompanies(self, value: Value) -> bool:
        """A judge's vote."""
        return {"subset", "item", "evaluator", "winner"} <= value.keys()

    def read(self, main: Iterable[Record], beside: Iterable[Record]) -> Iterator[Stated | Refusal]:
        """The comparisons, each with the votes on its item."""
        votes: dict[tuple[str, str], list[Record]] = {}
        for record in beside:
            votes.setdefault((_plain(str(record.value.get("subset"))), str(record.value.get("item"))), []).append(
                record
            )
        for record in main:
            judged = votes.pop((_plain(Path(record.file).name.partition(".")[0]), str(record.line - 1)), [])
            yield from stated(record, lambda value, judged=judged: [_row(value, judged)])  # type: ignore[misc]
        for record in (record for left in votes.values() for record in left):
            yield refusal(record, RowError("no_comparison", "no file has its subset and item"), of_vote=True)


def _plain(subset: str) -> str:
    """A subset's name without what a file name cannot hold."""
    return "".join(letter for letter in subset.lower() if letter.isalnum())


def _row(value: Value, judged: list[Record]) -> Row:
    row = Row(
        prompt=as_prompt(text(value, "input")),
        response_a=text(value, "output_1"),
        response_b=text(value, "output_2"),
        gold=choice(value, "label", LABELS),
        extra=rest(value, "input", "output_1", "output_2", "label"),
    )
    add_judgements(row, judged, _vote)
    return row


def _vote(record: Record) -> Vote:
    return Vote(
        annotator=identity(record.value, "evaluator"),
        kind="model",
        choice=choice(record.value, "winner", LABELS),
        shown_first=choice(record.value, "orientation", ORDERS) if record.value.get("orientation") else None,
        replicate=str(record.value.get("result_index", "")),
        file=record.file,
        line=record.line,
    )
