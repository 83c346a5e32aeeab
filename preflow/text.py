"""When two texts count as the same: the one normalisation that prompt groups and duplicates share."""

import polars as pl


def normalised(text: pl.Expr) -> pl.Expr:
    """The text with compatible characters unified (NFKC), in lower case, with single spaces between words."""
    return _folded(_unified(text))


def opening(text: pl.Expr, *, words: int) -> pl.Expr:
    """The first words of `normalised(text)`, without the cost of the rest: texts that differ here differ."""
    return _folded(_unified(text).str.extract(rf"^(?:\s*\S+){{0,{words}}}", 0))


def conversation(messages: pl.Expr) -> pl.Expr:
    """Chat messages (list of role and content) as one text, a role and its content on each line; "" for none."""
    message = pl.element()
    line = message.struct.field("role").cast(pl.String) + ": " + message.struct.field("content")
    return messages.list.eval(line).list.join("\n")


def _unified(text: pl.Expr) -> pl.Expr:
    """NFKC, paid for only by rows that hold other than ASCII characters."""
    is_ascii = text.str.len_bytes() == text.str.len_chars()
    return pl.coalesce(pl.when(~is_ascii).then(text).str.normalize("NFKC"), text)


def _folded(text: pl.Expr) -> pl.Expr:
    """Lower case and single spaces."""
    return text.str.to_lowercase().str.replace_all(r"\s{2,}|[^\S ]", " ").str.strip_chars()
