"""When two texts count as the same: the one normalisation that prompt groups and duplicates share."""

import polars as pl

# Characters of which NFKC leaves every sequence as it is: none decomposes, combines or is compatible with another.
# Not all such, but those of most texts: ASCII, letters of Latin, Greek and Cyrillic, quotes and dashes, kana, Chinese
# characters, Hangul, emoji.
STABLE = (
    r"\x00-\x7F\u00BF-\u0131\u0134-\u013E\u0141-\u0148\u014A-\u017E\u0391-\u03A1\u03A3-\u03CF\u0400-\u0482"
    r"\u2010\u2012-\u2016\u2018-\u2023\u3001\u3002\u3041-\u3096\u30A1-\u30FA\u4E00-\u9FFF\uAC00-\uD7A3"
    r"\U0001F300-\U0001F64F"
)


def normalised(text: pl.Expr) -> pl.Expr:
    """The text with compatible characters unified (NFKC), in lower case, with single spaces between words."""
    return _folded(_unified(text))


def opening(text: pl.Expr, *, words: int) -> pl.Expr:
    """The first words of `normalised(text)`, without the cost of the rest: texts that differ here differ.

    NFKC joins nothing across white space but may make some (from "\u00a8", for one), so the words are counted again.
    """
    first = rf"^(?:\s*\S+){{0,{words}}}"
    as_written = text.str.extract(first, 0)
    unified = _where_unstable(as_written).str.normalize("NFKC").str.extract(first, 0)
    return _folded(pl.coalesce(unified, as_written))


def conversation(messages: pl.Expr) -> pl.Expr:
    """Chat messages (list of role and content) as one text, a role and its content on each line; "" for none."""
    message = pl.element()
    line = message.struct.field("role").cast(pl.String) + ": " + message.struct.field("content")
    return messages.list.eval(line).list.join("\n")


def only_where(condition: pl.Expr, text: pl.Expr) -> pl.Expr:
    """The text, or "" where the condition does not hold: polars would work on the text behind a null all the same."""
    return pl.when(condition).then(text).otherwise(pl.lit(""))


def _unified(text: pl.Expr) -> pl.Expr:
    """NFKC, paid for only by rows that it could change: it takes seven times as long as a look at every character."""
    return pl.coalesce(_where_unstable(text).str.normalize("NFKC"), text)


def _where_unstable(text: pl.Expr) -> pl.Expr:
    """The text where NFKC could change it, else null."""
    foreign = pl.when(text.str.len_bytes() != text.str.len_chars()).then(text)
    return pl.when(foreign.str.contains(rf"[^{STABLE}]")).then(text)


def _folded(text: pl.Expr) -> pl.Expr:
    """Lower case and single spaces."""
    return text.str.to_lowercase().str.replace_all(r"\s{2,}|[^\S ]", " ").str.strip_chars()
