"""Prometheus evaluations: one response in a fixed template, with several scores, 1 to 5, and a feedback for each.

Kim et al. (ICLR 2024), https://github.com/prometheus-eval/prometheus-eval
"""

from preflow.formats.base import RowError, Value, as_prompt, optional_text, rest, text
from preflow.formats.scored_responses import Scored, ScoredFormat, mean_score

INSTRUCTION = "###The instruction to evaluate:\n"
RESPONSE = "\n\n###Response to evaluate:\n"
REFERENCE = "\n\n###Reference Answer (Score 5):\n"
RUBRIC = "\n\n###Score Rubrics:\n"
END = "\n\n###Feedback: "


class Prometheus(ScoredFormat):
    """The prompt is the instruction being evaluated, cut out of the template exactly."""

    name = "prometheus"
    fields = "instruction (in Prometheus' template), gpt4_score (list), gpt4_feedback (list), response_source"

    def matches(self, value: Value) -> bool:
        """A templated instruction with scores."""
        return {"instruction", "gpt4_score", "gpt4_feedback"} <= value.keys()

    def scored(self, value: Value) -> Scored:
        """The response that a record holds, with its mean score."""
        parts = template_parts(text(value, "instruction"))
        return Scored(
            prompt=as_prompt(parts.pop("instruction")),
            response=parts.pop("response"),
            score=mean_score(value, "gpt4_score"),
            model=optional_text(value, "response_source"),
            extra=rest(value, "instruction", "response_source") | parts,
        )


def template_parts(filled: str) -> dict[str, str]:
    """What was filled into the template: instruction, response, reference (where it has one) and rubric."""
    marks = [mark for mark in (INSTRUCTION, RESPONSE, REFERENCE, RUBRIC) if mark != REFERENCE or mark in filled]
    if any(filled.count(mark) != 1 for mark in marks):
        raise RowError("unknown_template", f"not each of {[mark.strip() for mark in marks]} stands in it exactly once")
    if [filled.index(mark) for mark in marks] != sorted(filled.index(mark) for mark in marks):
        raise RowError("unknown_template", "the parts of the template are out of order")
    names = {INSTRUCTION: "instruction", RESPONSE: "response", REFERENCE: "reference", RUBRIC: "rubric"}
    parts = {}
    for mark, following in zip(marks, [*marks[1:], END], strict=True):
        parts[names[mark]] = filled.partition(mark)[2].partition(following)[0]
    return parts
