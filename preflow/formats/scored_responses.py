"""Single responses with scores: the responses to one prompt are compared by their mean scores."""

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from preflow.formats.base import (
    Format,
    Message,
    Row,
    RowError,
    Stated,
    Value,
    as_json,
    as_prompt,
    number,
    optional_text,
    present,
    refusal,
    rest,
    text,
)
from preflow.sources.records import Record, Refusal


@dataclass(frozen=True, slots=True)
class Scored:
    """A response to a prompt and its score on the source's own scale."""

    prompt: list[Message]
    response: str
    score: float
    model: str | None = None
    extra: Value = field(default_factory=dict)


class ScoredFormat(Format):
    """Every two responses to a prompt are a pair, in the order of the file; the scores are the only preference."""

    @abstractmethod
    def scored(self, value: Value) -> Scored:
        """The response that a record holds. Raises RowError."""

    def read(self, main: Iterable[Record], beside: Iterable[Record]) -> Iterator[Stated | Refusal]:  # noqa: ARG002
        """The pairs of each prompt, prompts in order of first appearance."""
        prompts: dict[str, list[tuple[Record, Scored]]] = {}
        for record in main:
            try:
                scored = self.scored(record.value)
            except RowError as error:
                yield refusal(record, error)
            else:
                prompts.setdefault(as_json(scored.prompt), []).append((record, scored))
        for group in prompts.values():
            if len(group) == 1:
                yield refusal(group[0][0], RowError("no_partner", "the only response to its prompt"))
            for (record, one), (_, other) in itertools.combinations(group, 2):
                yield Stated(_pair(one, other), record)


def _pair(one: Scored, other: Scored) -> Row:
    return Row(
        prompt=one.prompt,
        response_a=one.response,
        response_b=other.response,
        score_a=one.score,
        score_b=other.score,
        model_a=one.model,
        model_b=other.model,
        extra={side: scored.extra for side, scored in (("a", one), ("b", other)) if scored.extra},
        by_margin=True,
    )


class ScoredResponses(ScoredFormat):
    """The plain form."""

    name = "scored_responses"
    fields = "prompt (string or messages), response, score (a number or a list of numbers); model optional"

    def matches(self, value: Value) -> bool:
        """A response with a score."""
        return {"prompt", "response", "score"} <= value.keys()

    def scored(self, value: Value) -> Scored:
        """The response that a record holds."""
        return Scored(
            prompt=as_prompt(present(value, "prompt")),
            response=text(value, "response"),
            score=mean_score(value, "score"),
            model=optional_text(value, "model"),
            extra=rest(value, "prompt", "response", "model"),
        )


def mean_score(value: Value, key: str) -> float:
    """The score under a key, or the mean of several."""
    found = present(value, key)
    scores = found if isinstance(found, list) else [found]
    if not scores:
        raise RowError("missing_field", f"{key} is empty")
    return fmean(_score(one, key) for one in scores)


def _score(found: Any, key: str) -> float:
    score = number({key: found}, key)
    if score is None:
        raise RowError("null_field", f"{key} has no number")
    return score
