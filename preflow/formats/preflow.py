"""Preflow's own format: a comparison with all that is known about it, votes included."""

from collections.abc import Iterator

from preflow.formats.base import (
    RecordFormat,
    Row,
    RowError,
    Value,
    Vote,
    as_prompt,
    choice,
    identity,
    instant,
    items,
    number,
    optional_text,
    present,
    rest,
    text,
    votes_of,
)

CHOICES = {"a": "a", "b": "b", "tie": "tie"}
KINDS = {"person": "person", "model": "model"}
FACTS = ("votes", "gold", "score_a", "score_b", "model_a", "model_b")
VOTE_FIELDS = ("annotator", "annotator_kind", "choice", "strength", "reason", "shown_first", "time", "seconds")


class Preflow(RecordFormat):
    """Responses are a and b throughout."""

    name = "preflow"
    fields = (
        "response_a, response_b and one of votes, gold, score_a and score_b, model_a and model_b; prompt (string or "
        f"messages) optional; a vote has annotator, choice (a, b, tie), optional {', '.join(VOTE_FIELDS[3:])}"
    )

    def matches(self, value: Value) -> bool:
        """Two responses and something known about them."""
        return {"response_a", "response_b"} <= value.keys() and any(fact in value for fact in FACTS)

    def rows(self, value: Value) -> Iterator[Row]:
        """One comparison."""
        prompt = value.get("prompt")
        votes, refused = votes_of(items(value, "votes"), _vote)
        yield Row(
            prompt=as_prompt("" if prompt is None else prompt),
            response_a=text(value, "response_a"),
            response_b=text(value, "response_b"),
            votes=votes,
            refused_votes=refused,
            score_a=number(value, "score_a"),
            score_b=number(value, "score_b"),
            gold=choice(value, "gold", CHOICES) if value.get("gold") is not None else None,
            model_a=optional_text(value, "model_a"),
            model_b=optional_text(value, "model_b"),
            extra=rest(value, "prompt", "response_a", "response_b", *FACTS),
        )


def _vote(vote: Value) -> Vote:
    unknown = present(vote, "choice") and vote.keys() - set(VOTE_FIELDS)
    if unknown:
        raise RowError(
            "unknown_field", f"a vote has no {', '.join(sorted(unknown))}; known are {', '.join(VOTE_FIELDS)}"
        )
    shown = vote.get("shown_first")
    return Vote(
        annotator=identity(vote, "annotator"),
        kind=choice(vote, "annotator_kind", KINDS) if vote.get("annotator_kind") is not None else "person",
        choice=choice(vote, "choice", CHOICES),
        strength=strength(vote, "strength"),
        reason=optional_text(vote, "reason"),
        shown_first=choice(vote, "shown_first", {"a": "a", "b": "b"}) if shown is not None else None,
        time=instant(vote, "time"),
        seconds=number(vote, "seconds"),
    )


def strength(vote: Value, key: str) -> int | None:
    """How strong a preference is, 1 to 3; None where it is not stated."""
    found = vote.get(key)
    if found is not None and (isinstance(found, bool) or found not in (1, 2, 3)):
        raise RowError("unknown_choice", f"{key} is {found!r}; known are 1 (slight), 2 (clear), 3 (overwhelming)")
    return None if found is None else int(found)
