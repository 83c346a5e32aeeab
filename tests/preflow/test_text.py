import re
import sys
import unicodedata

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflow.text import STABLE, conversation, normalised, opening


def apply(expression, values, dtype=pl.String):
    return (
        pl.DataFrame({"text": pl.Series(values, dtype=dtype)}).select(expression(pl.col("text"))).to_series().to_list()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  The\tsky\n\nis  BLUE ", "the sky is blue"),
        ("\ufb01nd \uff21 \uff11", "find a 1"),
        ("cafe\u0301", "caf\u00e9"),
        ("non\u00a0breaking", "non breaking"),
        (" \n", ""),
        (None, None),
    ],
)
def test_normalised(text, expected):
    assert apply(normalised, [text]) == [expected]


MIXED = st.sampled_from(
    "aA \t\n\x85\xa0\u3000\u00e9e\u0301\u0323\u00a8\ufb01\u0130i\u0307\u03a3\u03c3\u4e2d\uac00\u1100\u1161\u11a8"
)
ANY = st.characters(codec="utf-8")


@settings(deadline=None)
@given(st.lists(st.text(alphabet=MIXED | ANY, max_size=30), min_size=1))
def test_normalised_is_its_definition(texts):
    unified = pl.Series([unicodedata.normalize("NFKC", text) for text in texts])
    plain = unified.str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    assert apply(normalised, texts) == plain.to_list()


def test_stable_characters_neither_change_nor_combine():
    stable = re.compile(f"[{STABLE}]")
    found = [chr(code) for code in range(sys.maxunicode + 1) if stable.match(chr(code))]
    assert len(found) > 30_000
    two = [
        d.split() for d in map(unicodedata.decomposition, map(chr, range(sys.maxunicode + 1))) if d[:1] not in ("", "<")
    ]
    second = {chr(int(parts[1], 16)) for parts in two if len(parts) == 2}
    hangul = set(map(chr, [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]))  # composed by rule, not by table
    assert all(unicodedata.is_normalized("NFKC", char) and not unicodedata.combining(char) for char in found)
    assert not (second | hangul) & set(found)


@settings(deadline=None)
@given(st.lists(st.text(alphabet=MIXED, max_size=12), min_size=1), st.integers(1, 3))
def test_openings_tell_no_equal_texts_apart(texts, words):
    whole, first = apply(normalised, texts), apply(lambda text: opening(text, words=words), texts)
    again = apply(lambda text: opening(text, words=words), whole)
    assert first == again, "the opening depends on the normalised text alone"
    assert first == [" ".join(text.split(" ")[:words]) for text in whole]


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=40), min_size=1))
def test_texts_that_agree_normalised_have_one_opening(texts):
    twisted = ["  " + text.replace(" ", "\n ") for text in texts]
    whole, again = apply(normalised, texts), apply(normalised, twisted)
    first, second = (apply(lambda text: opening(text, words=3), values) for values in (texts, twisted))
    assert all(x == y for x, y, a, b in zip(first, second, whole, again, strict=True) if a == b)


def test_opening_is_the_first_words():
    assert apply(lambda t: opening(t, words=2), ["One  TWO three", "one", ""]) == ["one two", "one", ""]


def test_conversation_keeps_roles_and_order():
    dtype = pl.List(pl.Struct({"role": pl.Enum(["user", "assistant"]), "content": pl.String}))
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    assert apply(conversation, [chat, []], dtype) == ["user: Hi\nassistant: Yes?", ""]
