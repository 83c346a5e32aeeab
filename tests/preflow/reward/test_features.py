import math

import pytest

from preflow.reward.features import FEATURES, response_features


def test_features_worked_by_hand():
    text = "Yes, it is. Is it? 42!\n- one\n- **two**"
    row = response_features([text]).row(0, named=True)
    assert list(row) == list(FEATURES)
    assert row["log_characters"] == math.log1p(len(text))
    assert row["log_words"] == pytest.approx(math.log1p(8))  # yes it is is it 42 one two
    assert row["type_token_ratio"] == 6 / 8
    assert row["word_length"] == (3 + 2 + 2 + 2 + 2 + 2 + 3 + 3) / 8
    assert row["log_sentences"] == math.log1p(3)
    assert row["log_list_items"] == math.log1p(2)
    assert row["log_lines"] == math.log1p(2)
    assert row["log_markdown"] == math.log1p(2)  # the two ** of the bold
    assert row["log_commas"] == row["log_questions"] == row["log_exclamations"] == math.log1p(1)
    assert row["digit_share"] == 2 / len(text)
    assert row["capital_share"] == 2 / len(text)
    assert row["log_links"] == row["refusal"] == 0


@pytest.mark.parametrize(
    ("text", "refusal"),
    [("I'm sorry, I can't help with that.", 1), ("As an AI, I have no body.", 1), ("A sorry tale of an aide.", 0)],
)
def test_refusal_phrase(text, refusal):
    assert response_features([text])["refusal"].to_list() == [refusal]


def test_odd_texts_give_finite_numbers_in_the_order_given():
    texts = [" ", "\N{PILE OF POO}", "?", "a" * 10_000, "日本語のテキスト"]
    features = response_features(texts)
    assert features.to_numpy().shape == (5, len(FEATURES))
    assert (features.to_numpy() < math.inf).all()
    assert features["log_characters"].to_list() == pytest.approx([math.log1p(len(text)) for text in texts])
    assert response_features([]).shape == (0, len(FEATURES))
