"""Reviews by a judge model of two answers to a question, in separate files (Vicuna's blog evaluation, FastChat).

https://github.com/lm-sys/vicuna-blog-eval
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from preflow.formats.base import (
    Format,
    Row,
    RowError,
    Stated,
    Value,
    Vote,
    as_prompt,
    identity,
    items,
    number,
    optional_text,
    refusal,
    rest,
    stated,
    text,
)
from preflow.sources.records import Record, Refusal

T = TypeVar("T")
COLUMNS = ("question_id", "answer1_id", "answer2_id", "reviewer_id", "text", "score")


class JudgeReviews(Format):
    """The higher score is the choice; the judge read answer 1 (a) first."""

    name = "judge_reviews"
    fields = "review_id, question_id, answer1_id, answer2_id, reviewer_id, text, score; beside: answers, questions"
    joined = True

    def matches(self, value: Value) -> bool:
        """A review of two answers."""
        return {"answer1_id", "answer2_id", "score"} <= value.keys()

    def accompanies(self, value: Value) -> bool:
        """An answer or a question; or a description of a model, a prompt or a reviewer, which states nothing."""
        described = ({"model_id", "model_name"}, {"prompt_id", "prompt_template"}, {"reviewer_id", "description"})
        return (
            {"answer_id", "question_id", "text"} <= value.keys()
            or ({"question_id", "text"} <= value.keys() and not self.matches(value))
            or any(keys <= value.keys() for keys in described)
        )

    def read(self, main: Iterable[Record], beside: Iterable[Record]) -> Iterator[Stated | Refusal]:
        """One comparison per review."""
        answers: dict[str, Value] = {}
        questions: dict[str, str] = {}
        for record in beside:
            value = record.value
            try:
                if "answer_id" in value:
                    _keep(answers, value, "answer_id", value)
                elif "question_id" in value:
                    _keep(questions, value, "question_id", text(value, "text"))
            except RowError as error:
                yield refusal(record, error)
        for record in main:
            yield from stated(record, lambda value: [_row(value, answers, questions)])


def _row(value: Value, answers: dict[str, Value], questions: dict[str, str]) -> Row:
    one, other = (_found(answers, value, key) for key in ("answer1_id", "answer2_id"))
    question = _found(questions, value, "question_id")
    scores = [number({"score": score}, "score") for score in items(value, "score")]
    if len(scores) != 2 or scores[0] is None or scores[1] is None:
        raise RowError("missing_field", f"score is {value['score']!r}, not two numbers")
    return Row(
        prompt=as_prompt(question),
        response_a=text(one, "text"),
        response_b=text(other, "text"),
        votes=[
            Vote(
                annotator=identity(value, "reviewer_id"),
                kind="model",
                choice="a" if scores[0] > scores[1] else "b" if scores[1] > scores[0] else "tie",
                reason=optional_text(value, "text"),
                shown_first="a",
            )
        ],
        score_a=scores[0],
        score_b=scores[1],
        model_a=optional_text(one, "model_id"),
        model_b=optional_text(other, "model_id"),
        extra=rest(value, *COLUMNS),
    )


def _keep(table: dict[str, T], value: Value, key: str, kept: T) -> None:
    if table.setdefault(identity(value, key), kept) != kept:
        raise RowError("duplicate_id", f"{key} {value[key]} stands twice, with other contents")


def _found(table: dict[str, T], value: Value, key: str) -> T:
    name = identity(value, key)
    if name not in table:
        raise RowError("no_partner", f"{key} {name} is in no file of the folder")
    return table[name]
