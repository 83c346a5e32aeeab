"""Formats whose comparisons and judgements are spread over the files of a folder."""

import csv

import pytest

from preflow.ingest.intake import ingest

REVIEW = {"review_id": 1, "question_id": 1, "answer1_id": "x", "answer2_id": "y", "reviewer_id": 3, "text": "9 8"}
ANSWERS = [{"answer_id": a, "question_id": 1, "text": f"answer {a}", "model_id": f"m{a}"} for a in "xy"]
QUESTIONS = [{"question_id": 1, "text": "why?", "category": "c"}]


def test_reviews_join_answers_and_questions(take):
    reviews = [REVIEW | {"score": [9, 8.5]}, REVIEW | {"score": [1, 1.0]}, REVIEW | {"score": [1]}]
    found = take(reviews=reviews, answers=ANSWERS, questions=QUESTIONS)
    assert [(one["response_a"], one["model_b"], one["score_b"]) for one in found.comparisons] == [
        ("answer x", "my", 8.5)
    ]
    assert found.comparisons[0]["prompt"] == [{"role": "user", "content": "why?"}]
    said = [(vote["annotator"], vote["annotator_kind"], vote["choice"], vote["shown_first"]) for vote in found.votes]
    assert said == [("3", "model", "a", "a"), ("3", "model", "tie", "a")]
    assert [one["reason"] for one in found.quarantine] == ["missing_field"]
    assert found.counts["sources"][0]["source"].startswith("input")


def test_a_review_of_an_answer_that_is_nowhere_is_refused(take):
    reviews = [REVIEW | {"score": [9, 8]}, REVIEW | {"answer2_id": "z", "score": [9, 8]}]
    found = take(reviews=reviews, answers=[ANSWERS[0], ANSWERS[1] | {"answer_id": "z"}], questions=QUESTIONS)
    assert [(one["reason"], one["detail"]) for one in found.quarantine] == [
        ("no_partner", "answer2_id y is in no file of the folder")
    ]


def test_a_bad_answer_is_refused_where_it_stands(take):
    bad = {"answer_id": None, "question_id": 1, "text": "t"}
    again = ANSWERS[0] | {"text": "another answer of the same id"}
    found = take(reviews=[REVIEW | {"score": [9, 8]}], answers=[*ANSWERS, bad, again], questions=QUESTIONS)
    assert [(one["source_file"], one["source_line"], one["reason"]) for one in found.quarantine] == [
        ("answers.jsonl", 3, "null_field"),
        ("answers.jsonl", 4, "duplicate_id"),
    ]
    assert len(found.comparisons) == 1


def test_pandalm_verdicts_join_by_idx(take):
    row = {"instruction": "i", "input": "n", "response1": "x", "response2": "y", "cmp_key": "m-1_m-2"}
    people = {"annotator1": 1, "annotator2": "2", "annotator3": 0}
    verdicts = [{"idx": 0, "gpt_result": "Tie", "gpt_reason": "same"}, {"idx": 7, "gpt_result": "1"}, {"idx": 0}]
    found = take(testset=[row | people | {"idx": 0}], **{"gpt-4-testset-v1": verdicts})
    assert found.comparisons[0]["prompt"][0]["content"] == "i\n\nn"
    assert (found.comparisons[0]["model_a"], found.comparisons[0]["model_b"]) == ("m-1", "m-2")
    assert [(vote["annotator"], vote["annotator_kind"], vote["choice"]) for vote in found.votes] == [
        ("annotator1", "person", "a"),
        ("annotator2", "person", "b"),
        ("annotator3", "person", "tie"),
        ("gpt-4", "model", "tie"),
    ]
    assert {(one["source_line"], one["reason"]) for one in found.quarantine} == {
        (2, "no_comparison"),
        (3, "missing_field"),
    }
    assert found.counts["votes_quarantined"] == 2


@pytest.fixture
def llmbar_folder(tmp_path):
    folder = tmp_path / "bar"
    folder.mkdir()
    (folder / "Set__One^2.json").write_text('[{"input": "i", "output_1": "x", "output_2": "y", "label": 2}]')
    with (folder / "votes.csv").open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(["subset", "item", "gold", "evaluator", "result_index", "orientation", "winner"])
        for index, order, winner in ((0, "False", 1), (0, "True", 2), (1, "True", 2), (1, "True", 2), (2, "False", "")):
            table.writerow(["Set/One2", 0, 2, "judge", index, f"swap = {order}", winner])
        table.writerow(["Set/One2", 5, 2, "judge", 0, "swap = True", 2])
    return folder


def test_llmbar_repeated_judgements_stay_apart(llmbar_folder, tmp_path):
    limits = {"max_field_chars": 100, "min_score_margin": 0.0}
    found = ingest(llmbar_folder, formats={}, hub=[], scratch=tmp_path / "s", **limits)
    votes = found.votes.select("choice", "shown_first", "source_line", "flags").collect()
    assert votes.rows() == [
        ("a", "a", 2, ["own_vote_contradiction"]),
        ("b", "b", 3, ["own_vote_contradiction"]),
        ("b", "b", 4, ["own_vote_contradiction"]),
        ("b", "b", 5, ["own_vote_contradiction"]),
    ]
    assert found.comparisons.collect()["gold"].to_list() == ["b"]
    assert found.comparisons.collect()["source"].to_list() == ["bar"]
    assert found.quarantine.select("source_line", "reason").collect().sort("source_line").rows() == [
        (6, "unknown_choice"),
        (7, "no_comparison"),
    ]
