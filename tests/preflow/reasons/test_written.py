import polars as pl
import pytest

from preflow.reasons.written import distinguishing_phrases, reason_topics, tag_by_written_reasons
from tests.preflow.feedback import content_hash, vote, votes

PAIR, OTHER, AGREED = (content_hash(name) for name in ("one", "two", "three"))
SAID = [
    (PAIR, "x", "a", "A1 is concise and clear."),
    (PAIR, "y", "b", "A2 goes into more detail."),
    (PAIR, "z", "a", "I just like horses."),
    (OTHER, "x", "a", "A1 talks about cats, so it is shorter."),
    (OTHER, "y", "b", "A2 talks about horses."),
    (OTHER, "z", "tie", "Both are fine."),
    (AGREED, "x", "a", "A1 is more concise."),
    (AGREED, "y", "a", "A1 is shorter."),
]


def cast(said):
    return votes([vote(pair, name, choice, reason=reason) for pair, name, choice, reason in said])


def test_a_cause_needs_several_annotators_who_name_it():
    reasons, remainders = tag_by_written_reasons(cast(SAID), min_reasons=2, phrases=2)
    assert reasons.select("pair_id", "label", "class").rows() == [(PAIR, "verbosity", "style")]
    assert reasons["evidence"].item().startswith("named by 1 who chose a, 1 b, 0 tie; a: ")
    assert dict(remainders.select("pair_id", "unexplained").iter_rows()) == {PAIR: 0.0, OTHER: 1.0}


def test_the_same_person_twice_is_one_annotator():
    said = [(PAIR, "x", "a", "A1 is concise."), (PAIR, "x", "b", "A2 is brief."), (PAIR, "y", "b", "Fine.")]
    reasons, _ = tag_by_written_reasons(cast(said), min_reasons=2, phrases=2)
    assert reasons.is_empty()


@pytest.mark.parametrize(
    "reason", ["A1 gives more information.", "A1 lists the reasons.", "It is simply better.", "About capitalism."]
)
def test_words_that_only_look_like_a_cause(reason):
    said = [(PAIR, "x", "a", reason), (PAIR, "y", "b", reason)]
    assert tag_by_written_reasons(cast(said), min_reasons=2, phrases=2)[0].is_empty()


def test_phrases_that_part_the_sides():
    written = pl.DataFrame(SAID, schema=["pair_id", "annotator", "choice", "reason"], orient="row")
    found = {row.pop("pair_id"): row for row in distinguishing_phrases(written, phrases=2).to_dicts()}
    assert "cats" in found[OTHER]["phrases_a"]
    assert found[OTHER]["phrases_b"] == ["talks horses", "horses"]  # rarest first
    assert found[AGREED]["phrases_b"] == []


def test_votes_without_reasons():
    reasons, remainders = tag_by_written_reasons(
        cast([(PAIR, "x", "a", None), (PAIR, "y", "b", "  ")]), min_reasons=2, phrases=2
    )
    assert len(reasons) == len(remainders) == 0


def test_topics_are_found_and_repeat():
    said = [
        (content_hash(str(n)), name, choice, reason)
        for n in range(12)
        for name, choice, reason in (("x", "a", "uses many facts"), ("y", "b", "opinion only"), ("z", "b", "opinion"))
    ]
    found = reason_topics(cast(said), topics=2, phrases=2, seed=0)
    assert found["n_reasons"].to_list() == [24, 12]
    assert found["phrases"].to_list()[0][0] == "opinion"
    assert "facts" in found["phrases"].to_list()[1] or "uses" in found["phrases"].to_list()[1]
    assert found.equals(reason_topics(cast(said), topics=2, phrases=2, seed=0))
