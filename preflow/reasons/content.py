"""What the texts of a pair say about why people may differ on it: measured, without any vote.

A response has properties (length, format, ...); a pair has the difference of each, signed from response_a to
response_b, and a few measures of both responses and the prompt together.
"""

import polars as pl

from preflow.reward.features import response_features

_TEXT = pl.col("text")
_WORDS = _TEXT.str.to_lowercase().str.extract_all(r"[\p{L}\p{N}'\x{2019}-]+")
_VOCABULARY = _TEXT.str.to_lowercase().str.extract_all(r"\p{L}[\p{L}'\x{2019}-]*").list.unique()
_N_WORDS = _WORDS.list.len().clip(lower_bound=1)
_N_SENTENCES = _TEXT.str.count_matches(r"[.!?]+(\s|$)").clip(lower_bound=1)
# Numbers, and words that begin with a capital in the middle of a sentence.
_FACT = r"[\p{Ll},;] \p{Lu}[\p{L}\p{N}]+|\p{N}[\p{N}.,]*\p{N}|\p{N}"
_FACTS = _TEXT.str.extract_all(_FACT).list.eval(pl.element().str.replace(r"^[\p{Ll},;] ", "")).list.unique()
_HEDGES = (
    r"(?i)\b(maybe|perhaps|possibly|probably|arguably|presumably|might|could be|may be|it seems|seems to|"
    r"i (think|believe|guess)|not (sure|certain)|it depends|generally|usually|to some extent)\b"
)
_EMOJI = r"[\x{1F300}-\x{1FAFF}\x{2600}-\x{27BF}]"
_VAGUE = r"(?i)\b(something|anything|some|stuff|things?|about|interesting|nice|good|better|best|ideas?|tips?|help)\b"
_FINISHED = r"[.!?:\x{2026}\x{3002}\x{FF01}\x{FF1F}\"'\x{201D}\x{2019})\]}*`|>\x{1F300}-\x{1FAFF}\x{2600}-\x{27BF}]\s*$"

# Automated Readability Index (Smith and Senter, 1967): the US school grade that a text asks for. It needs no syllables,
# for which textstat would bring nltk and its downloads. Lists without full stops are one sentence: hence the cap.
_READING_LEVEL = (4.71 * _WORDS.list.join("").str.len_chars() / _N_WORDS + 0.5 * _N_WORDS / _N_SENTENCES - 21.43).clip(
    0, 25
)


def _repetition() -> pl.Expr:
    """Share of the runs of three words that stand elsewhere in the text already."""
    word = pl.element()
    runs = _WORDS.list.eval((word + " " + word.shift(-1) + " " + word.shift(-2)).drop_nulls())
    return 1 - runs.list.n_unique() / runs.list.len().clip(lower_bound=1) - (runs.list.len() == 0)


# Name -> (expression, what it is). Length, format, refusal and exclamations come from `preflow.reward.features`.
_OWN = {
    "reading_level": (_READING_LEVEL, "school grade (Automated Readability Index, 0 to 25)"),
    "hedging": (100 * _TEXT.str.count_matches(_HEDGES) / _N_WORDS, "hedges per 100 words"),
    "emoji": (_TEXT.str.count_matches(_EMOJI).log1p(), "log(1 + emoji)"),
    "repetition": (_repetition().clip(0, 1), "share of repeated three-word runs"),
    "unfinished": (~_TEXT.str.contains(_FINISHED), "1 where the text breaks off without a closing sign"),
}
PROPERTIES = {
    "length": "log(1 + words)",
    "format": "log(1 + list items) + log(1 + headings, bold, code and table marks)",
    "reading_level": _OWN["reading_level"][1],
    "tone": "log(1 + exclamation marks) + log(1 + emoji)",
    "hedging": _OWN["hedging"][1],
    "refusal": "1 where a refusal or apology phrase occurs",
    "repetition": _OWN["repetition"][1],
    "unfinished": _OWN["unfinished"][1],
}
"""What is measured of a response, with its unit."""
TOGETHER = {
    "both_refuse": "1 where both responses refuse",
    "overlap": "distinct words (numbers left out) in both responses / in either",
    "fact_conflict": "share of numbers and names that only one response has, times overlap; 0 where a side has none",
    "prompt_words": "log(1 + words) of the last message of the prompt",
    "prompt_vagueness": "share of words in that message that leave open what is asked for",
}
"""What is measured of both responses, or of the prompt, with its unit."""


def response_properties(texts: pl.Series) -> pl.DataFrame:
    """PROPERTIES of each text, Float64, one row a text in the order given; equal texts are measured once."""
    given = pl.DataFrame({"text": texts})
    distinct = given.unique(maintain_order=True)
    own = distinct.select(expression.cast(pl.Float64).alias(name) for name, (expression, _) in _OWN.items())
    measured = response_features(distinct["text"].to_list()).hstack(own)
    chosen = measured.select(
        length="log_words",
        format=pl.col("log_list_items") + pl.col("log_markdown"),
        reading_level="reading_level",
        tone=pl.col("log_exclamations") + pl.col("emoji"),
        hedging="hedging",
        refusal="refusal",
        repetition="repetition",
        unfinished="unfinished",
    )
    return given.join(distinct.hstack(chosen), on="text", maintain_order="left").select(list(PROPERTIES))


def content_evidence(comparisons: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What the texts say, and the differences of each property; one row a comparison in the order given.

    Returns
    -------
    Evidence: pair_id, `gap_` and each of PROPERTIES (absolute difference), and TOGETHER. It stays the same when the two
    responses change places.
    Differences: pair_id and each of PROPERTIES of response_a less that of response_b.
    """
    ids = comparisons.select("pair_id")
    a, b = (response_properties(comparisons[f"response_{side}"]) for side in "ab")
    differences = pl.DataFrame([a[name] - b[name] for name in PROPERTIES])
    gaps = differences.select(pl.all().abs().name.prefix("gap_"))
    both = pl.DataFrame([(a["refusal"] * b["refusal"]).alias("both_refuse")])
    evidence = ids.hstack(gaps).hstack(both).hstack(_shared_content(comparisons)).hstack(_prompt_measures(comparisons))
    return evidence, ids.hstack(differences)


def _shared_content(comparisons: pl.DataFrame) -> pl.DataFrame:
    """The columns overlap and fact_conflict of each pair."""
    sides = [comparisons.select(text=f"response_{side}") for side in "ab"]
    words, facts = (_shared(*(side.select(found).to_series() for side in sides)) for found in (_VOCABULARY, _FACTS))
    return pl.DataFrame({"overlap": words.fill_null(0.0), "fact_conflict": ((1 - facts) * words).fill_null(0.0)})


def _shared(a: pl.Series, b: pl.Series) -> pl.Series:
    """Elements of both lists over those of either, [n]; null where a list is empty."""
    both = pl.DataFrame({"a": a, "b": b})
    union = pl.col("a").list.set_union("b").list.len()
    known = (pl.col("a").list.len() > 0) & (pl.col("b").list.len() > 0)
    return both.select(pl.when(known).then(pl.col("a").list.set_intersection("b").list.len() / union)).to_series()


def _prompt_measures(comparisons: pl.DataFrame) -> pl.DataFrame:
    """The columns prompt_words and prompt_vagueness of the last message; zeros where there is no prompt."""
    text = pl.col("prompt").list.last().struct.field("content").fill_null("").alias("text")
    return comparisons.select(text).select(
        prompt_words=_WORDS.list.len().log1p(), prompt_vagueness=_TEXT.str.count_matches(_VAGUE) / _N_WORDS
    )
