import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflow.text import conversation, normalised, opening


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
