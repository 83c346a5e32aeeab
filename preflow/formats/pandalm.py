"""PandaLM's human test set: two answers, three annotators (1, 2, 0 for a tie), and judges' verdicts in files beside it.

Wang et al. (ICLR 2024), https://github.com/WeOpenML/PandaLM
"""

import re
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
    optional_text,
    refusal,
    rest,
    stated,
    text,
    votes_of,
)
from preflow.sources.records import Record, Refusal

ANNOTATORS = ("annotator1", "annotator2", "annotator3")
CHOICES = {"1": "a", "2": "b", "0": "tie", "tie": "tie"}
COLUMNS = ("instruction", "input", "response1", "response2", *ANNOTATORS)


class PandaLm(Format):
    """A judge is named after its file; verdicts join by idx."""

    name = "pandalm"
    fields = "idx, instruction, input, response1, response2, annotator1, annotator2, annotator3; beside: idx, *_result"
    joined = True

    def matches(self, value: Value) -> bool:
        """Two responses and three annotators."""
        return {"response1", "response2", *ANNOTATORS} <= value.keys()

    def accompanies(self, value: Value) -> bool:
        """A judge's verdict."""
        return "idx" in value and any(str(key).endswith("_result") for key in value)

    def read(self, main: Iterable[Record], beside: Iterable[Record]) -> Iterator[Stated | Refusal]:
        """The comparisons, each with the verdicts of its idx."""
        verdicts: dict[str, list[Record]] = {}
        for record in beside:
            verdicts.setdefault(str(record.value.get("idx")), []).append(record)
        for record in main:
            judged = verdicts.pop(str(record.value.get("idx")), [])
            yield from stated(record, lambda value, judged=judged: [_row(value, judged)])  # type: ignore[misc]
        for record in (record for left in verdicts.values() for record in left):
            yield refusal(record, RowError("no_comparison", "no comparison has its idx"), of_vote=True)


def _row(value: Value, judged: list[Record]) -> Row:
    item = str(value.get("idx", ""))  # equal answers of other models were judged anew, under another idx
    votes, refused = votes_of(
        ANNOTATORS, lambda name: Vote(annotator=name, choice=choice(value, name, CHOICES), replicate=item)
    )
    row = Row(
        prompt=as_prompt("\n\n".join(part for part in (text(value, "instruction"), text(value, "input")) if part)),
        response_a=text(value, "response1"),
        response_b=text(value, "response2"),
        votes=votes,
        refused_votes=refused,
        extra=rest(value, *COLUMNS),
    )
    models = str(value.get("cmp_key", "")).split("_")
    if len(models) == 2:
        row.model_a, row.model_b = models
    add_judgements(row, judged, _verdict)
    return row


def _verdict(record: Record) -> Vote:
    prefix = next((key for key in record.value if key.endswith("_result")), "_result").removesuffix("_result")
    return Vote(
        annotator=re.sub(r"(-testset.*)?\.jsonl?(\.gz)?$", "", Path(record.file).name),
        kind="model",
        choice=choice(record.value, f"{prefix}_result", CHOICES),
        reason=optional_text(record.value, f"{prefix}_reason"),
        replicate=str(record.value.get("idx", "")),
        file=record.file,
        line=record.line,
    )
