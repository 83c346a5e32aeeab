H, A = "\n\nHuman: ", "\n\nAssistant: "


def test_the_dialogue_is_split_at_the_last_shared_assistant_turn(take):
    shared = f"{H}Hi{A}Hello{H}A word with p?{A}"
    found = take({"chosen": f"{shared}Pear", "rejected": f"{shared}Pen"}).comparisons[0]
    assert [(turn["role"], turn["content"]) for turn in found["prompt"]] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "A word with p?"),
    ]
    assert (found["response_a"], found["response_b"]) == ("Pear", "Pen")


def test_marker_text_inside_a_message_stays_in_it(take):
    shared = f"{H}Go on:{H}Yo{A}"
    found = take({"chosen": f"{shared}1", "rejected": f"{shared}2"}).comparisons[0]
    assert found["prompt"] == [{"role": "user", "content": f"Go on:{H}Yo"}]
    assert found["flags"] == ["marker_in_body"]


def test_a_quoted_assistant_turn_belongs_to_the_question(take):
    shared = f"{H}Complete:{A}Well{A}"
    found = take({"chosen": f"{shared}1", "rejected": f"{shared}2"}).comparisons[0]
    assert found["prompt"] == [{"role": "user", "content": f"Complete:{A}Well"}]


def test_the_bare_word_is_no_marker_and_an_empty_reply_is_refused(take):
    good = {"chosen": f"{H}Assistant: what?{A}1", "rejected": f"{H}Assistant: what?{A}2"}
    empty = {"chosen": f"{H}Hi{A}", "rejected": f"{H}Hi\n\nAssistant:"}
    early = {"chosen": f"{H}Hi{A}1{H}more{A}2", "rejected": f"{H}Hi{A}3"}
    apart = {"chosen": f"{H}Hi{A}1", "rejected": f"{H}Ho{A}1"}
    found = take(good, empty, early, apart)
    assert found.comparisons[0]["prompt"][0]["content"] == "Assistant: what?"
    assert [row["reason"] for row in found.quarantine] == [
        "diverges_before_last_turn",
        "no_shared_prompt",
        "empty_response",
    ]


def test_a_prompt_that_the_transcripts_hold_adds_nothing(take):
    row = {"chosen": f"{H}hi{A}a", "rejected": f"{H}hi{A}b"}
    bare = take(row).comparisons[0]
    for prompt in (None, "", f"{H}hi{A}"):
        assert take(row | {"prompt": prompt}).comparisons[0] == bare
