"""Helpful, honest, harmless pairs in Prometheus' template: a chosen and a rejected response to one instruction."""

from collections.abc import Iterator

from preflow.formats.base import RecordFormat, Row, RowError, Value, Vote, as_prompt, rest, text
from preflow.formats.prometheus import template_parts


class PrometheusHhh(RecordFormat):
    """Both templates are filled with the same instruction."""

    name = "prometheus_hhh"
    fields = "chosen_instruction, rejected_instruction (in Prometheus' template)"

    def matches(self, value: Value) -> bool:
        """Two filled templates."""
        return {"chosen_instruction", "rejected_instruction"} <= value.keys()

    def rows(self, value: Value) -> Iterator[Row]:
        """One labelled comparison."""
        chosen = template_parts(text(value, "chosen_instruction"))
        rejected = template_parts(text(value, "rejected_instruction"))
        if chosen["instruction"] != rejected["instruction"]:
            raise RowError("no_shared_prompt", "the two templates are filled with different instructions")
        yield Row(
            prompt=as_prompt(chosen["instruction"]),
            response_a=chosen["response"],
            response_b=rejected["response"],
            votes=[Vote(choice="a", kind="label")],
            extra=rest(value, "chosen_instruction", "rejected_instruction") | {"rubric": chosen["rubric"]},
        )
