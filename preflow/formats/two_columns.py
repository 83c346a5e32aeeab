"""A plain table of two responses, with a label where there is one."""

from collections.abc import Iterator

from preflow.formats.base import RecordFormat, Row, Value, Vote, as_prompt, choice, rest, text
from preflow.formats.preflow import FACTS

LABELS = {"a": "a", "b": "b", "1": "a", "2": "b", "response_a": "a", "response_b": "b", "tie": "tie"}


class TwoColumns(RecordFormat):
    """Without a label the rows carry no preference: they are there to be judged."""

    name = "two_columns"
    fields = f"response_a, response_b; prompt and label ({', '.join(LABELS)}) optional"

    def matches(self, value: Value) -> bool:
        """Two responses and none of the facts of Preflow's own format."""
        return {"response_a", "response_b"} <= value.keys() and not any(fact in value for fact in FACTS)

    def rows(self, value: Value) -> Iterator[Row]:
        """One comparison."""
        prompt, labelled = value.get("prompt"), value.get("label") not in (None, "")
        yield Row(
            prompt=as_prompt("" if prompt is None else prompt),
            response_a=text(value, "response_a"),
            response_b=text(value, "response_b"),
            votes=[Vote(choice=choice(value, "label", LABELS), kind="label")] if labelled else [],
            extra=rest(value, "prompt", "response_a", "response_b", "label"),
        )
