import pytest

from preflow.formats.recognise import known_formats
from preflow.sources import FeedbackError

MESSAGES = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
EXAMPLES = {
    "helpsteer": {"prompt": "p", "response": "r", "helpfulness": 1, "verbosity": 1},
    "helpsteer2_preference": {"prompt": "p", "response_1": "r", "response_2": "s", "preference_strength": 1},
    "hh": {"chosen": "\n\nHuman: q\n\nAssistant: a", "rejected": "\n\nHuman: q\n\nAssistant: b"},
    "judge_reviews": {"review_id": 1, "question_id": 1, "answer1_id": 1, "answer2_id": 2, "text": "t", "score": [1, 2]},
    "llmbar": {"input": "i", "output_1": "o", "output_2": "p", "label": 1},
    "multipref": {"text": "t", "completion_a": "a", "completion_b": "b", "normal_worker_annotations": []},
    "pandalm": {"idx": 1, "response1": "a", "response2": "b", "annotator1": 1, "annotator2": 1, "annotator3": 1},
    "preflow": {"prompt": "p", "response_a": "a", "response_b": "b", "votes": []},
    "prometheus": {"instruction": "i", "gpt4_score": [1], "gpt4_feedback": ["f"]},
    "prometheus_hhh": {"chosen_instruction": "c", "rejected_instruction": "r"},
    "scored_responses": {"prompt": "p", "response": "r", "score": 1},
    "trl": {"prompt": "p", "chosen": "c", "rejected": "r"},
    "two_columns": {"response_a": "a", "response_b": "b"},
    "ukp": {"title": "t", "stance": "s", "arg1": "a", "arg2": "b", "votes": []},
    "ultrafeedback": {"chosen": MESSAGES, "rejected": MESSAGES, "score_chosen": 1, "score_rejected": 0},
    "verified_solutions": {"question": "q", "m": {"is_correct": True, "solution": "s"}},
}


def test_every_format_has_an_example_and_only_its_own_claims_it():
    assert sorted(EXAMPLES) == sorted(known_formats())
    for name, value in EXAMPLES.items():
        claims = [form.name for form in known_formats().values() if form.matches(value) or form.accompanies(value)]
        assert claims == [name]


def test_an_unknown_format_is_told_what_was_seen_and_what_is_known(take):
    with pytest.raises(FeedbackError) as error:
        take({"winner": 1, "loser": 2})
    assert "loser, winner" in str(error.value)
    assert all(f"{form.name}: {form.fields}" in str(error.value) for form in known_formats().values())


def test_a_format_can_be_named_and_then_decides(take):
    row = {"prompt": "p", "chosen": "c", "rejected": "r"}
    found = take(**{"x": [row], "y": [row]}, formats={"y*": "preflow"})
    assert {source["source"]: source["format"] for source in found.counts["sources"]} == {"x": "trl", "y": "preflow"}
    assert [(one["source"], one["reason"]) for one in found.quarantine] == [("y", "missing_field")]


@pytest.mark.parametrize(("formats", "message"), [({"*": "nope"}, "nope"), ({"z*": "trl"}, "matches none")])
def test_a_wrong_name_or_pattern_is_an_error(take, formats, message):
    with pytest.raises(FeedbackError, match=message):
        take({"chosen": "c", "rejected": "r"}, formats=formats)


def test_a_bad_first_record_does_not_decide(take):
    shared = "\n\nHuman: q\n\nAssistant: "
    good = [{"chosen": f"{shared}{n}", "rejected": f"{shared}x{n}"} for n in range(3)]
    found = take({"chosen": None, "rejected": None}, *good)
    assert found.counts["sources"][0]["format"] == "hh"
    assert [one["reason"] for one in found.quarantine] == ["null_field"]


def test_files_beside_nothing_are_an_error(take):
    with pytest.raises(FeedbackError, match="nothing to join"):
        take({"idx": 1, "gpt_result": 1})
