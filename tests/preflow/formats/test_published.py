"""The formats of published data sets whose files are not at hand: small records in their shape."""

from datetime import UTC, datetime


def test_ultrafeedback_scores_and_their_contradiction_of_the_label(take):
    chosen, rejected = ([{"role": "user", "content": "q"}, {"role": "assistant", "content": t}] for t in "cr")
    row = {"prompt": "q", "prompt_id": "1", "chosen": chosen, "rejected": rejected, "messages": chosen}
    other = row | {"rejected": [*rejected[:1], {"role": "assistant", "content": "r2"}]}
    found = take(row | {"score_chosen": 8.5, "score_rejected": 7}, other | {"score_chosen": 4, "score_rejected": 7.0})
    assert [(one["score_a"], one["score_b"], one["flags"]) for one in found.comparisons] == [
        (8.5, 7.0, []),
        (4.0, 7.0, ["score_label_mismatch"]),
    ]
    assert found.comparisons[0]["extra"] == '{"prompt_id": "1"}'


def test_helpsteer2_preferences_are_votes_and_neither_is_refused(take):
    prompt = "Hi\n<extra_id_1>Assistant\nHello\n<extra_id_1>User\nMore\n<extra_id_1>Assistant\n"
    raw = [{"strength": -3, "justification": "1 is right"}, {"strength": 0}, {"strength": -100}, {"strength": 2}]
    row = {"prompt": prompt, "response_1": "x", "response_2": "y", "preference_strength": -1, "split": "train"}
    found = take(row | {"all_preferences_unprocessed": raw}, row | {"all_preferences_unprocessed": repr(raw)}, row)
    assert [turn["role"] for turn in found.comparisons[0]["prompt"]] == ["user", "assistant", "user"]
    assert [(vote["annotator"], vote["choice"], vote["strength"]) for vote in found.votes] == [
        ("annotator_1", "a", 3),
        ("annotator_2", "tie", None),
        ("annotator_4", "b", 2),
        ("label:data", "a", 1),
    ]
    assert found.votes[0]["reason"] == "1 is right"
    assert [(one["source_line"], one["reason"]) for one in found.quarantine] == [
        (1, "invalid_annotations"),
        (2, "invalid_annotations"),
    ]
    assert (found.counts["rows_kept"], found.counts["rows_merged"], found.counts["votes_merged"]) == (1, 2, 3)


def test_helpsteer2_without_a_valid_annotation_is_refused(take):
    row = {"prompt": "p", "response_1": "x", "response_2": "y", "preference_strength": 1}
    found = take(
        row,
        row | {"all_preferences_unprocessed": [{"strength": -100}]},
        row | {"preference_strength": 7},
        row | {"all_preferences_unprocessed": r"[{'strength': 1, 'justification': '\ud800'}]"},
        row | {"all_preferences_unprocessed": "[{'strength': f()}]"},
    )
    reasons = ["invalid_annotations", "unknown_choice", "lone_surrogate", "wrong_type"]
    assert [one["reason"] for one in found.quarantine] == reasons


def test_helpsteer_responses_are_paired_by_helpfulness(take):
    row = {"prompt": "p", "correctness": 1, "coherence": 1, "complexity": 1, "verbosity": 1}
    found = take(row | {"response": "x", "helpfulness": [4, 3]}, row | {"response": "y", "helpfulness": 1})
    assert (found.comparisons[0]["score_a"], found.comparisons[0]["score_b"]) == (3.5, 1.0)
    assert found.votes == []


def test_multipref_workers_and_experts(take):
    def said(who, preference, **more):
        return {"evaluator": who, "overall_pref": preference, "time_spent": 283} | more

    row = {"comparison_id": "7", "text": "q", "completion_a": "x", "completion_b": "y", "model_a": "m", "model_b": "n"}
    normal = [said("w1", "A-is-clearly-better", timestamp="2024-05-21 19:18:25.735159"), said("w2", "Tie")]
    found = take(
        row
        | {
            "normal_worker_annotations": normal,
            "expert_worker_annotations": [said("e1", "B-is-slightly-better"), said("e2", "?")],
        }
    )
    assert [(vote["annotator"], vote["choice"], vote["strength"]) for vote in found.votes] == [
        ("w1", "a", 2),
        ("w2", "tie", None),
        ("e1", "b", 1),
    ]
    assert found.votes[0]["time"] == datetime(2024, 5, 21, 19, 18, 25, 735159, tzinfo=UTC)
    assert found.votes[0]["seconds"] == 283.0
    assert [one["reason"] for one in found.quarantine] == ["unknown_choice"]


def test_preflow_rows_with_votes_and_gold(take):
    votes = [
        {
            "annotator": "ann",
            "choice": "a",
            "strength": 2,
            "reason": "clear",
            "shown_first": "b",
            "time": "2024-01-01T00:00:00Z",
        },
        {"annotator": "ann", "choice": "b"},
        {"annotator": 9007199254740993, "annotator_kind": "model", "choice": "tie"},
        {"annotator": "bob", "choice": "c"},
        {"annotator": "bob", "choice": "a", "strenght": 1},
        {"annotator": "bob", "choice": "a", "seconds": -1},
    ]
    row = {"prompt": "p", "response_a": "x", "response_b": "y", "score_a": 1, "gold": "a", "votes": votes, "id": 5}
    found = take(row)
    assert found.comparisons[0]["gold"] == "a"
    assert [(vote["annotator"], vote["choice"], vote["flags"]) for vote in found.votes] == [
        ("ann", "a", ["own_vote_contradiction"]),
        ("ann", "b", ["own_vote_contradiction"]),
        ("9007199254740993", "tie", []),
    ]
    assert found.votes[0]["time"] == datetime(2024, 1, 1, tzinfo=UTC)
    assert sorted(one["reason"] for one in found.quarantine) == ["negative_seconds", "unknown_choice", "unknown_field"]
    assert found.counts["votes_in"] == 6


def test_two_columns_with_and_without_labels(take):
    found = take(
        {"response_a": "x", "response_b": "y", "label": 2},
        {"response_a": "x", "response_b": "z", "label": "tie"},
        {"response_a": "x", "response_b": "w", "label": None},
        {"response_a": "x", "response_b": "v", "label": "left"},
    )
    assert [vote["choice"] for vote in found.votes] == ["b", "tie"]
    assert len(found.comparisons) == 3
    assert [one["reason"] for one in found.quarantine] == ["unknown_choice"]


def test_scored_responses_need_a_partner_and_a_margin(take):
    def scored(prompt, response, score):
        return {"prompt": prompt, "response": response, "score": score, "model": response}

    rows = [
        scored("p", "x", [1, 2]),
        scored("q", "u", 3),
        scored("p", "y", 4),
        scored("p", "z", "4.2"),
        scored("r", "n", None),
    ]
    found = take(*rows)
    assert [(one["model_a"], one["model_b"], one["score_a"], one["score_b"]) for one in found.comparisons] == [
        ("x", "y", 1.5, 4.0),
        ("x", "z", 1.5, 4.2),
    ]
    assert [(one["source_line"], one["reason"]) for one in found.quarantine] == [
        (5, "null_field"),
        (2, "no_partner"),
        (3, "no_contrast"),
    ]
    assert len(take(*rows, margin=0.0).comparisons) == 3


def test_verified_solutions_pair_right_with_wrong(take):
    def solution(text, right):
        return {"solution": text, "is_correct": right}

    mixed = {
        "question": "q",
        "m1": solution("1", right=False),
        "m2": solution("2", right=True),
        "m3": solution("3", right=True),
    }
    found = take(mixed, {"question": "q2", "m1": solution("1", right=True)}, mixed | {"m1": solution("1", right=None)})
    assert [(one["model_a"], one["model_b"], one["gold"]) for one in found.comparisons] == [
        ("m2", "m1", "a"),
        ("m3", "m1", "a"),
    ]
    assert [(one["source_line"], one["reason"]) for one in found.quarantine] == [(2, "no_contrast"), (3, "null_field")]
    assert found.counts["rows_in"] == 4
