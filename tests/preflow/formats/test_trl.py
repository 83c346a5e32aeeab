import pytest

USER = {"role": "user", "content": "What is 2 + 2?"}
ASSISTANT = {"role": "assistant", "content": "4."}
OTHER = {"role": "assistant", "content": "5."}


def texts(row):
    return row["prompt"], row["response_a"], row["response_b"]


def test_standard_pairs_keep_their_texts_and_get_one_label_vote(take):
    found = take({"prompt": "The sky", "chosen": " is blue. ", "rejected": " is green."})
    assert texts(found.comparisons[0]) == ([{"role": "user", "content": "The sky"}], " is blue. ", " is green.")
    assert [(vote["annotator"], vote["annotator_kind"], vote["choice"]) for vote in found.votes] == [
        ("label:data", "label", "a")
    ]


@pytest.mark.parametrize(
    ("chosen", "rejected"), [("Paris ", "London"), ("The sky", "The sky is blue"), ("aXc", "abc"), ("a b", "a c")]
)
def test_an_implicit_prompt_of_strings_is_never_cut_out_of_the_texts(take, chosen, rejected):
    # TRL cuts at the first differing character and leaves "The sk" and "y" (PR 6079 and four more).
    assert texts(take({"chosen": chosen, "rejected": rejected}).comparisons[0]) == ([], chosen, rejected)


def test_explicit_and_implicit_prompts_of_messages_are_the_same_row(take):
    explicit = take({"prompt": [USER], "chosen": [ASSISTANT], "rejected": [OTHER]})
    implicit = take({"chosen": [USER, ASSISTANT], "rejected": [USER, OTHER]})
    both = take({"prompt": USER["content"], "chosen": [USER, ASSISTANT], "rejected": [USER, OTHER]})
    assert texts(explicit.comparisons[0]) == ([USER], "4.", "5.")
    for other in (implicit, both):
        assert other.comparisons[0] == explicit.comparisons[0]
        assert other.votes == explicit.votes


def test_a_prompt_that_opens_a_longer_conversation_is_not_repeated(take):
    turns = [USER, ASSISTANT, {"role": "user", "content": "Sure?"}]
    found = take({"prompt": [USER], "chosen": [*turns, ASSISTANT], "rejected": [*turns, OTHER]})
    assert found.comparisons[0]["prompt"] == turns


@pytest.mark.parametrize(
    ("chosen", "rejected", "reason"),
    [
        ("", "London", "empty_response"),
        (" \n", "London", "whitespace_response"),
        ("same", "same", "identical_responses"),
        (None, "London", "null_field"),
        (3, "London", "wrong_type"),
        ("Paris", 3, "wrong_type"),
        ([], [USER, ASSISTANT], "empty_response"),
        ([USER, ASSISTANT], [USER, ASSISTANT], "identical_responses"),
        ([USER, ASSISTANT], [USER, ASSISTANT, USER, OTHER], "diverges_before_last_turn"),
        ([USER, USER, ASSISTANT], [USER, USER, OTHER], "consecutive_same_role"),
        ([USER, ASSISTANT, ASSISTANT], [USER, ASSISTANT, OTHER], "consecutive_same_role"),
        ([USER, {"role": "gpt", "content": "4."}], [USER, OTHER], "unknown_role"),
        ([{"role": "alien", "content": "x"}, ASSISTANT], [{"role": "alien", "content": "x"}, OTHER], "unknown_role"),
        ([USER, {"role": "assistant", "content": None}], [USER, OTHER], "null_field"),
        ([USER, {"role": "assistant"}], [USER, OTHER], "missing_field"),
        (["hello"], [USER, OTHER], "wrong_type"),
        ("x" * 10_001, "y", "field_too_long"),
    ],
)
def test_a_bad_pair_is_one_refused_row_and_the_good_one_stays(take, chosen, rejected, reason):
    good = {"chosen": "Paris", "rejected": "London"}
    found = take({"chosen": chosen, "rejected": rejected}, good)
    assert [(row["source_line"], row["reason"]) for row in found.quarantine] == [(1, reason)]
    assert [row["source_line"] for row in found.comparisons] == [2]


def test_reward_bench_models_are_columns_and_the_rest_is_extra(take):
    row = {"prompt": "p", "chosen": "c", "chosen_model": "m1", "rejected": "r", "rejected_model": "m2", "subset": "s"}
    found = take({"id": 2**64} | row).comparisons[0]
    assert (found["model_a"], found["model_b"]) == ("m1", "m2")
    assert found["extra"] == '{"id": 18446744073709551616, "subset": "s"}'


def test_chat_markup_in_a_text_is_flagged(take):
    found = take(
        {"chosen": "a<|im_end|>\n<|im_start|>assistant\nb", "rejected": "c"}, {"chosen": "2 <3", "rejected": "c"}
    )
    assert [row["flags"] for row in found.comparisons] == [["special_tokens_in_text"], []]


def test_message_fields_that_have_no_place_are_flagged(take):
    found = take({"chosen": [USER, ASSISTANT | {"name": "x"}], "rejected": [USER, OTHER]})
    assert found.comparisons[0]["flags"] == ["message_fields_dropped"]
