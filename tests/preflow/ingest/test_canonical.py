"""The checks of the texts, against their plain definitions row by row."""

import re
import unicodedata

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from preflow.formats.base import Row, Stated
from preflow.ingest.canonical import SPECIAL_TOKENS, checked, comparison_frame, digest, pair_id_of, with_hashes
from preflow.sources.records import Record

WHITE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000"
TEXTS = st.text(
    alphabet=st.sampled_from("aAbB<|>s/" + WHITE + "\u00e9\u0301e\u00a8\ufb01fi\u0130i\u0307\u03a3\u03c3\u03c2"),
    max_size=8,
)
WHITE_RUN = re.compile("[" + WHITE + "]+")
LIMIT = 12
SAID = ("reason", "detail", "flags")


def normal(text):
    """The definition: NFKC, lower case (as the engine has it), single spaces."""
    lower = pl.Series([unicodedata.normalize("NFKC", text)]).str.to_lowercase().item()
    return WHITE_RUN.sub(" ", lower).strip(" ")


def expected(row):
    """Reason and flags of a row, each rule as it is said."""
    said = "\n".join(f"{message['role']}: {message['content']}" for message in row.prompt)
    texts = (said, row.response_a, row.response_b)
    margin = None if None in (row.score_a, row.score_b) else row.score_a - row.score_b
    rules = {
        "field_too_long": max(map(len, texts)) > LIMIT,
        "empty_response": "" in texts[1:],
        "whitespace_response": any(not WHITE_RUN.sub("", text) for text in texts[1:]),
        "identical_responses": row.response_a == row.response_b,
        "no_contrast": row.by_margin and margin is not None and abs(margin) < 1,
    }
    doubts = {
        "identical_normalised": normal(row.response_a) == normal(row.response_b),
        "special_tokens_in_text": any(re.search(SPECIAL_TOKENS, text) for text in texts),
        "score_label_mismatch": margin is not None and (row.gold, margin < 0, margin > 0) in WRONG,
    }
    return next((name for name, bad in rules.items() if bad), None), [name for name, holds in doubts.items() if holds]


WRONG = {("a", True, False), ("b", False, True)}
SCORES = st.none() | st.sampled_from([0.0, 0.5, 2.0])


@st.composite
def rows(draw):
    prompt = [{"role": "user", "content": content} for content in draw(st.lists(TEXTS, max_size=2))]
    a = draw(TEXTS)
    b = draw(TEXTS | st.sampled_from([a, a.upper(), a + " ", unicodedata.normalize("NFD", a), " \t" + a]))
    return Row(
        prompt=prompt,
        response_a=a,
        response_b=b,
        score_a=draw(SCORES),
        score_b=draw(SCORES),
        gold=draw(st.none() | st.sampled_from(["a", "b", "tie"])),
        flags=draw(st.lists(st.sampled_from(["own", "other"]), max_size=2)),
        by_margin=draw(st.booleans()),
    )


def frame_of(drawn):
    return comparison_frame("s", [Stated(row, Record({}, "f", line)) for line, row in enumerate(drawn, 1)])


@settings(max_examples=40, deadline=None)
@given(st.lists(rows(), min_size=1, max_size=30))
def test_every_row_gets_the_reason_and_the_flags_of_the_definitions(drawn):
    found = checked(frame_of(drawn), max_field_chars=LIMIT, min_score_margin=1)
    assert found.height == len(drawn)
    assert found["source_line"].to_list() == list(range(1, len(drawn) + 1))
    for row, reason, detail, flags in zip(drawn, *(found[name].to_list() for name in SAID), strict=True):
        bad, doubts = expected(row)
        assert (reason, flags) == (bad, row.flags + doubts)
        assert (detail is None) == (bad is None)


@settings(max_examples=40, deadline=None)
@given(st.lists(rows(), min_size=1, max_size=30))
def test_ids_are_digests_of_the_texts_and_of_the_normalised_prompt(drawn):
    frame = checked(frame_of(drawn), max_field_chars=100, min_score_margin=0)
    hashed = with_hashes(frame)
    assert hashed["pair_id"].to_list() == [pair_id_of(row.prompt, row.response_a, row.response_b) for row in drawn]
    said = ["\n".join(f"{message['role']}: {message['content']}" for message in row.prompt) for row in drawn]
    keys = [
        normal(text) if text else tuple(sorted([normal(row.response_a), normal(row.response_b)]))
        for text, row in zip(said, drawn, strict=True)
    ]
    assert hashed["prompt_group"].to_list() == [digest(key if isinstance(key, str) else list(key)) for key in keys]


def test_ids_are_digests_whatever_the_character():
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    pieces = ["".join(every[start : start + 5_000]) for start in range(0, len(every), 5_000)]
    drawn = [Row(prompt=[{"role": "user", "content": piece}], response_a=piece, response_b="b") for piece in pieces]
    hashed = with_hashes(checked(frame_of(drawn), max_field_chars=10_000, min_score_margin=0))
    assert hashed["pair_id"].to_list() == [pair_id_of(row.prompt, row.response_a, row.response_b) for row in drawn]


def test_a_text_is_blank_exactly_if_it_has_no_opening():
    every = pl.Series([chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF])
    one = frame_of([Row(prompt=[], response_a="a", response_b="answer")])
    frame = pl.DataFrame({"response_a": every}).join(one.drop("response_a"), how="cross").select(one.columns)
    found = checked(frame, max_field_chars=LIMIT, min_score_margin=0)
    blank = found.filter(pl.col("reason") == "whitespace_response")["response_a"]
    assert len(blank) == 25
    assert blank.to_list() == every.filter(~every.str.contains(r"\S")).to_list()
