"""What annotators wrote about their choice: the keyphrases that part the two sides, and the causes that they name.

Reasons call the responses A1 and A2, which says nothing of why. Phrases are words and pairs of words weighted by TF-IDF
over all reasons (Salton and Buckley, 1988). A cause is named only where the words for it occur in the reasons of
several annotators of a pair; other pairs stay unexplained. The words are ours and were corrected once, after
reading about fourteen matches each in ukpconvarg1; they say what a reason is about, not who is right.
"""

import numpy as np
import polars as pl
from scipy.sparse import csr_array
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from preflow.reasons.rules import reason_tables

# Cause -> words by which annotators name it, as patterns in lower case.
WORDS = {
    "underspecification": r"open to interpretation|different(ly)? interpret|\bit (all )?depends"
    r"|(question|prompt|topic|instruction) (is|was) (vague|unclear|ambiguous)|unclear (question|prompt|instruction)",
    "verbosity": r"\blong(er|-winded| winded|est)?\b|\blength|\bshort(er|est)?\b|\bbrief|concise|succinct|wordy|verbose"
    r"|\brambl|to the point|(more|less|greater|further|enough|much) (in-?depth |in )?(detail|depth|explan)|elaborat",
    "format": r"\bformat|\bparagraph|\bbullet|\blayout|laid[- ]out|sentence structure|punctuat|\breadab"
    r"|(well|better|poorly|badly)[- ](structured|organi[sz]ed)|all caps|caps lock|capital letters?"
    r"|capitali[sz](ed|ing|ation)",
    "complexity": r"\bsimpl(e|er|est|icity|istic)\b|complex|complicat|too technical|jargon|sophisticat|vocabulary"
    r"|(easy|easier|hard|harder|difficult) to (understand|follow|read)|understandable",
    "aesthetic_taste": r"\btone\b|funny|humou?r|boring|\bdull\b|sarcas|\brude|polite|engaging|eloquent|articulate"
    r"|(well|better|nicely|poorly|badly)[- ](written|worded|phrased)|\bflow(s|ed|ing)?\b|\bstyle|creative|witty",
    "comply_refuse": r"refus(es|ed|ing|al) to (answer|help|say|make|respond)|declin(es|ed) to|(won't|will not) answer",
    "hallucination": r"incorrect|inaccura|not (true|accurate|factual)|isn't (true|correct)|untrue|\bfalse"
    r"|wrong (about|fact|information)|mislead|misinform|made[- ]up|fabricat",
    "degenerate_output": r"gibberish|nonsens|incoheren|(doesn't|does not|don't|didn't) make (any |much |a lot of |"
    r"a whole lot of )?sense|makes? (no|little|little to no) sense|incomplete|cut off|repetiti|repeats",
}
_STOP_WORDS = sorted(ENGLISH_STOP_WORDS | {"a1", "a2", "argument", "arguments", "response", "responses"})
_WORD = r"(?u)\b[^\W\d_][\w'-]+\b"


def tag_by_written_reasons(votes: pl.LazyFrame, *, min_reasons: int, phrases: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`DivergenceReasons` and `ReasonRemainders` of the diverging pairs with at least `min_reasons` written reasons.

    A cause needs `min_reasons` annotators who name it. Its evidence: how many on each side do, and the `phrases` most
    distinctive keyphrases of each side. What is named says what a choice was about; no probability is made of it.
    """
    written = _of_diverging_pairs(votes)
    named = [
        written.filter(pl.col("reason").str.to_lowercase().str.contains(pattern))
        .group_by("pair_id")
        .agg(n=pl.col("annotator").n_unique(), **{side: (pl.col("choice") == side).sum() for side in ("a", "b", "tie")})
        .filter(pl.col("n") >= min_reasons)
        .with_columns(label=pl.lit(label))
        for label, pattern in WORDS.items()
    ]
    keyphrases = distinguishing_phrases(written, phrases=phrases)
    counts = pl.format("named by {} who chose a, {} b, {} tie", "a", "b", "tie")
    sides = pl.format("a: {}; b: {}", pl.col("phrases_a").list.join(", "), pl.col("phrases_b").list.join(", "))
    found = (
        pl.concat(named)
        .join(keyphrases, on="pair_id", validate="m:1")
        .select("pair_id", "label", probability=pl.lit(None, dtype=pl.Float64), evidence=counts + "; " + sides)
    )
    looked_at = written.group_by("pair_id").len().filter(pl.col("len") >= min_reasons).select("pair_id")
    return reason_tables(found, looked_at, source="written_reason")


def distinguishing_phrases(written: pl.DataFrame, *, phrases: int) -> pl.DataFrame:
    """pair_id, phrases_a, phrases_b: what the reasons of one side say and those of the other do not, best first.

    Parameters
    ----------
    written
        Columns pair_id, choice and reason.
    phrases
        How many a side, at most: those with the largest difference between the sides' mean TF-IDF vectors.
    """
    ordered = written.sort("pair_id", "choice", "reason")
    pairs = ordered.select("pair_id").unique(maintain_order=True)
    columns: dict[str, list[list[str]]] = {"phrases_a": [], "phrases_b": []}
    words = TfidfVectorizer(ngram_range=(1, 2), stop_words=_STOP_WORDS, token_pattern=_WORD)
    analyse = words.build_analyzer()
    if not any(analyse(reason) for reason in ordered["reason"]):  # a vectorizer refuses texts without a word
        columns = {name: [[] for _ in range(len(pairs))] for name in columns}
    else:
        difference = _signs(ordered) @ words.fit_transform(ordered["reason"])
        names = words.get_feature_names_out()
        for i in range(len(pairs)):
            row = difference[[i]]
            for (_, found), sign in zip(columns.items(), (1, -1), strict=True):
                found.append(_largest(sign * row.data, names[row.indices], phrases))
    return pairs.with_columns(pl.Series(name, found, dtype=pl.List(pl.String)) for name, found in columns.items())


def _of_diverging_pairs(votes: pl.LazyFrame) -> pl.DataFrame:
    """pair_id, annotator, choice and reason of the votes with a reason, on pairs with votes for both sides."""
    choice = pl.col("choice").cast(pl.String)
    chosen = [(choice == side).any().over("pair_id") for side in ("a", "b")]
    return (
        votes.filter(*chosen)
        .filter(pl.col("reason").str.strip_chars() != "")
        .select("pair_id", "annotator", choice.alias("choice"), "reason")
        .collect()
    )


def _signs(ordered: pl.DataFrame) -> csr_array:
    """[pairs, reasons]: 1 / (reasons for a) where a reason is for a, -1 / (reasons for b) where it is for b."""
    in_side = ordered.select(
        pair=pl.col("pair_id").rle_id(),
        weight=pl.col("choice").replace_strict({"a": 1.0, "b": -1.0, "tie": 0.0}) / pl.len().over("pair_id", "choice"),
    )
    where = (in_side["pair"].to_numpy(), np.arange(len(ordered)))
    return csr_array((in_side["weight"].to_numpy(), where))


def _largest(values: np.ndarray, names: np.ndarray, n: int) -> list[str]:
    """The names of the `n` largest positive values, largest first, ties in the order of the alphabet."""
    order = np.lexsort((names, -values))[:n]
    return [str(names[i]) for i in order if values[i] > 0]


def reason_topics(votes: pl.LazyFrame, *, topics: int, phrases: int, seed: int) -> pl.DataFrame:
    """What the reasons on diverging pairs are about: non-negative factors of their TF-IDF (Lee and Seung, 1999).

    Returns
    -------
    Columns topic (0 the most frequent), phrases (the heaviest, best first) and n_reasons (whose largest factor it is).
    Reasons without a known phrase have no topic.
    """
    written = _of_diverging_pairs(votes).sort("pair_id", "annotator", "choice", "reason")
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=5, stop_words=_STOP_WORDS, token_pattern=_WORD)
    weights = words.fit_transform(written["reason"])
    names = words.get_feature_names_out()
    model = NMF(topics, init="nndsvda", random_state=seed)
    shares = model.fit_transform(weights)
    main = np.bincount(shares.argmax(1)[shares.max(1) > 0], minlength=topics)
    order = np.argsort(-main, kind="stable")
    named = [_largest(model.components_[k], names, phrases) for k in order]
    return pl.DataFrame({"topic": range(topics), "phrases": named, "n_reasons": main[order]})
