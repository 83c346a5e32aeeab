"""Simple features of a response that people and judges are known to reward, asked for or not: length, lists, refusals.

Counts enter as log(1 + count), because the first list item says more than the fiftieth.
"""

from collections.abc import Sequence

import polars as pl

REFUSAL = (
    r"(?i)\b(i('m| am) sorry|i apologi[sz]e|as an ai|i('m| am) unable to"
    r"|i can(no|')t (help|assist|provide|do|answer))\b"
)

_TEXT = pl.col("text")
_WORDS = _TEXT.str.to_lowercase().str.extract_all(r"\w+")
_N_CHARACTERS = _TEXT.str.len_chars().clip(lower_bound=1)


def _log_count(pattern: str) -> pl.Expr:
    return _TEXT.str.count_matches(pattern).log1p()


# Name -> (expression, what it is): the columns of `response_features`, in this order.
FEATURES: dict[str, tuple[pl.Expr, str]] = {
    "log_characters": (_TEXT.str.len_chars().log1p(), "log(1 + characters)"),
    "log_words": (_WORDS.list.len().log1p(), "log(1 + words)"),
    "word_length": (_WORDS.list.join("").str.len_chars() / _WORDS.list.len().clip(lower_bound=1), "characters a word"),
    "type_token_ratio": (_WORDS.list.n_unique() / _WORDS.list.len().clip(lower_bound=1), "distinct words / words"),
    "log_sentences": (_log_count(r"[.!?]+(\s|$)"), "log(1 + sentence ends)"),
    "log_lines": (_log_count(r"\n"), "log(1 + line breaks)"),
    "log_list_items": (_log_count(r"(?m)^\s*([-*+•]|\d+[.)])\s"), "log(1 + list items)"),
    "log_markdown": (_log_count(r"(?m)^#{1,6}\s|\*\*|`|^\|"), "log(1 + headings, bold, code and table marks)"),
    "log_commas": (_log_count(","), "log(1 + commas)"),
    "log_questions": (_log_count(r"\?"), "log(1 + question marks)"),
    "log_exclamations": (_log_count("!"), "log(1 + exclamation marks)"),
    "log_links": (_log_count(r"https?://|www\."), "log(1 + links)"),
    "digit_share": (_TEXT.str.count_matches(r"\d") / _N_CHARACTERS, "digits / characters"),
    "capital_share": (_TEXT.str.count_matches(r"\p{Lu}") / _N_CHARACTERS, "capital letters / characters"),
    "refusal": (_TEXT.str.contains(REFUSAL).cast(pl.Float64), "1 where a refusal or apology phrase occurs"),
}


def response_features(texts: Sequence[str]) -> pl.DataFrame:
    """Features of each text, one row a text in the order given; Float64 columns as FEATURES names them."""
    frame = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String)})
    return frame.select(expression.cast(pl.Float64).alias(name) for name, (expression, _) in FEATURES.items())
