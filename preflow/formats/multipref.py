"""MultiPref (Ai2): two completions, judged by two crowd workers and two experts.

Miranda et al. (2024), https://huggingface.co/datasets/allenai/multipref
"""

import re
from collections.abc import Iterator

from preflow.formats.base import (
    RecordFormat,
    Row,
    RowError,
    Value,
    Vote,
    as_prompt,
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

PREFERENCE = re.compile(r"([ab])-is-(?:(slightly|clearly)-)?better")
STRENGTHS = {"slightly": 1, "clearly": 2, None: None}
COLUMNS = ("text", "completion_a", "completion_b", "model_a", "model_b")


class MultiPref(RecordFormat):
    """The overall preference is the vote; what was said of helpfulness, truthfulness and harm stays in extra."""

    name = "multipref"
    fields = "text, completion_a, completion_b, normal_worker_annotations, expert_worker_annotations; model_a, model_b"

    def matches(self, value: Value) -> bool:
        """Two completions with annotations."""
        return {"completion_a", "completion_b", "normal_worker_annotations"} <= value.keys()

    def rows(self, value: Value) -> Iterator[Row]:
        """One comparison with up to four votes."""
        annotations = items(value, "normal_worker_annotations") + items(value, "expert_worker_annotations")
        votes, refused = votes_of(annotations, _vote)
        yield Row(
            prompt=as_prompt(text(value, "text")),
            response_a=text(value, "completion_a"),
            response_b=text(value, "completion_b"),
            votes=votes,
            refused_votes=refused,
            model_a=optional_text(value, "model_a"),
            model_b=optional_text(value, "model_b"),
            extra=rest(value, *COLUMNS),
        )


def _vote(annotation: Value) -> Vote:
    preference = str(present(annotation, "overall_pref")).lower()
    found = PREFERENCE.fullmatch(preference)
    if found is None and preference != "tie":
        raise RowError("unknown_choice", f"overall_pref is {preference[:80]!r}; known are Tie and A-is-clearly-better")
    return Vote(
        annotator=identity(annotation, "evaluator"),
        choice=found[1] if found else "tie",
        strength=STRENGTHS[found[2]] if found else None,
        time=instant(annotation, "timestamp"),
        seconds=number(annotation, "time_spent"),
    )
