"""UKPConvArg argument pairs: two arguments for one side of a debate, with the votes of crowd workers and their reasons.

Habernal and Gurevych (ACL 2016), https://github.com/UKPLab/acl2016-convincing-arguments
"""

from collections.abc import Iterator

from preflow.formats.base import (
    RecordFormat,
    Row,
    Value,
    Vote,
    choice,
    identity,
    instant,
    items,
    optional_text,
    present,
    rest,
    text,
    votes_of,
)

CHOICES = {"a1": "a", "a2": "b", "equal": "tie"}


class UkpArguments(RecordFormat):
    """The prompt is the debate's title and the side taken."""

    name = "ukp"
    fields = "title, stance, arg1, arg2, votes of worker, value (a1, a2, equal), reason, accepted, submitted"

    def matches(self, value: Value) -> bool:
        """Two arguments and their votes."""
        return {"arg1", "arg2", "votes"} <= value.keys()

    def rows(self, value: Value) -> Iterator[Row]:
        """One comparison. What MACE made of the votes is not gold, so it stays in extra, as do its competences."""
        extra = rest(value, "title", "stance", "arg1", "arg2", "votes")
        found = items(value, "votes")
        extra["competence"] = {
            str(vote.get("worker")): vote.get("competence") for vote in found if isinstance(vote, dict)
        }
        votes, refused = votes_of(found, _vote)
        yield Row(
            prompt=[{"role": "user", "content": f"{text(value, 'title')}\n{text(value, 'stance')}"}],
            response_a=text(value, "arg1"),
            response_b=text(value, "arg2"),
            votes=votes,
            refused_votes=refused,
            extra=extra,
        )


def _vote(vote: Value) -> Vote:
    present(vote, "value")
    accepted, submitted = instant(vote, "accepted"), instant(vote, "submitted")
    return Vote(
        annotator=identity(vote, "worker"),
        choice=choice(vote, "value", CHOICES),
        reason=optional_text(vote, "reason"),
        time=submitted,
        seconds=(submitted - accepted).total_seconds() if accepted and submitted else None,
    )
