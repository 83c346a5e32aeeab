"""From the rows of adapters to canonical columns: content hashes, the checks of each row, and its flags."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa

from preflow.formats.base import Message, Row, Stated, Vote, as_json
from preflow.schemas import ROLES, Comparisons
from preflow.text import conversation, normalised, only_where, opening

# Text that a chat template turns into a turn of its own (TRL does so for user text); `<s>` and the like as well.
SPECIAL_TOKENS = r"<\|[A-Za-z0-9_]+\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:bos|eos|pad|start_of_turn|end_of_turn)>"
STATED = (
    "prompt",
    "response_a",
    "response_b",
    "score_a",
    "score_b",
    "gold",
    "model_a",
    "model_b",
    "flags",
    "by_margin",
)
COLUMNS = pl.Schema(
    {
        name: dtype
        for name, dtype in Comparisons.create_empty().schema.items()
        if name not in ("pair_id", "prompt_group")
    }
    | {"by_margin": pl.Boolean(), "label": pl.String()}
)
WORDS_COMPARED = 2  # responses that open with other words are not the same
NESTED = {
    "prompt": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
    "flags": pa.list_(pa.string()),
}
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def digest(*parts: Any) -> str:
    """32 hexadecimal digits of SHA-256 over the JSON text of the parts, which no other parts share."""
    return sha256(encode(parts).encode()).hexdigest()[:32]


def pair_id_of(prompt: Sequence[Message], response_a: str, response_b: str) -> str:
    """The key of a comparison: the same texts in the same order, wherever they come from."""
    return digest([[message["role"], message["content"]] for message in prompt], response_a, response_b)


def vote_id_of(pair_id: str, annotator: str, vote: Vote, ordinal: int) -> str:
    """The key of a judgement; `ordinal` counts an annotator's votes on one row."""
    time = vote.time and vote.time.isoformat()
    said = (vote.choice, vote.strength, vote.reason, vote.shown_first, time, vote.seconds)
    return digest(pair_id, annotator, *said, vote.replicate, ordinal)


def turn_problem(prompt: Sequence[Message]) -> tuple[str, str] | None:
    """What is wrong with the order of turns, the assistant's response included: a reason and a detail."""
    roles = [message["role"] for message in prompt]
    if unknown := [role for role in roles if role not in ROLES]:
        return "unknown_role", f"role {unknown[0][:40]!r}; known are {', '.join(ROLES)}"
    for position, (role, following) in enumerate(pairwise([*roles, "assistant"]), 1):
        if role == following and role != "tool":  # one turn may call several tools
            return "consecutive_same_role", f"turns {position} and {position + 1} are both by {role}"
    return None


def vote_problem(vote: Vote, *, max_field_chars: int) -> tuple[str, str] | None:
    """Why a vote cannot be taken in: a reason and a detail."""
    if vote.seconds is not None and vote.seconds < 0:
        return "negative_seconds", f"the vote took {vote.seconds} seconds"
    if vote.reason is not None and len(vote.reason) > max_field_chars:
        return "field_too_long", f"the reason has {len(vote.reason)} characters"
    return None


def comparison_frame(source: str, stated: Sequence[Stated]) -> pl.DataFrame:
    """Rows as the columns of `Comparisons` that need no hash, and what the checks ask for: by_margin, label."""
    rows, records = [one.row for one in stated], [one.record for one in stated]
    values: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in STATED}
    values["source"] = [source] * len(rows)
    values["source_file"] = [record.file for record in records]
    values["source_line"] = [record.line for record in records]
    values["extra"] = [as_json(row.extra) if row.extra else None for row in rows]
    values["label"] = [_label(row) for row in rows]
    # Built by pyarrow: polars takes ten times as long over Python lists of messages.
    nested = {name: pl.from_arrow(pa.array(values.pop(name), type=kind)) for name, kind in NESTED.items()}
    return pl.DataFrame(values | nested).select(COLUMNS.names()).cast(COLUMNS)


def _label(row: Row) -> str | None:
    """The data set's own verdict."""
    return row.gold or next((vote.choice for vote in row.votes if vote.kind == "label"), None)


def checked(rows: pl.DataFrame, *, max_field_chars: int, min_score_margin: float) -> pl.DataFrame:
    """The rows with `reason` and `detail` (null for a good row) and with the flags of doubt added."""
    a, b, margin = pl.col("response_a"), pl.col("response_b"), (pl.col("score_a") - pl.col("score_b")).abs()
    said = rows.lazy().with_columns(  # lazy: common parts of the expressions are worked out once
        said=conversation(pl.col("prompt")),
        opening_a=opening(a, words=WORDS_COMPARED),
        opening_b=opening(b, words=WORDS_COMPARED),
    )
    texts = ("said", "response_a", "response_b")
    # A text has no more characters than bytes, and its bytes need no counting.
    long = (only_where(pl.col(name).str.len_bytes() > max_field_chars, pl.col(name)) for name in (*texts, "extra"))
    longest = pl.max_horizontal(text.str.len_chars() for text in long)
    refusals = {
        "field_too_long": (
            longest > max_field_chars,
            pl.format("a field has {} characters, max_field_chars is {}", longest, pl.lit(max_field_chars)),
        ),
        "empty_response": ((a == "") | (b == ""), pl.lit("a response has no characters")),
        "whitespace_response": (
            (pl.col("opening_a") == "") | (pl.col("opening_b") == ""),
            pl.lit("a response is nothing but white space"),
        ),
        "identical_responses": (a == b, pl.lit("the two responses are the same")),
        "no_contrast": (
            pl.col("by_margin") & (margin < min_score_margin),
            pl.format("scores {} and {}: the margin is below {}", "score_a", "score_b", pl.lit(min_score_margin)),
        ),
    }
    label, lead = pl.col("label"), pl.col("score_a") - pl.col("score_b")
    flags = {
        "identical_normalised": _same_normalised(a, b, pl.col("opening_a") == pl.col("opening_b")),
        "special_tokens_in_text": pl.any_horizontal(pl.col(name).str.contains(SPECIAL_TOKENS) for name in texts),
        "score_label_mismatch": ((label == "a") & (lead < 0)) | ((label == "b") & (lead > 0)),
    }
    found = said.with_columns(
        reason=pl.coalesce(pl.when(bad).then(pl.lit(name)) for name, (bad, _) in refusals.items()),
        detail=pl.coalesce(pl.when(bad).then(detail) for bad, detail in refusals.values()),
        doubts=_names(flags),
    )
    return _with_doubts(found.drop("opening_a", "opening_b").collect())


def _with_doubts(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with their `doubts` added to their flags: only where there are any, as joining lists is slow."""
    rows = rows.with_row_index("row")
    doubtful = rows.filter(pl.col("doubts").list.len() > 0)
    flagged = doubtful.select("row", flags=pl.col("flags").list.concat("doubts"))
    return rows.update(flagged, on="row", maintain_order="left").drop("row", "doubts")


def _same_normalised(a: pl.Expr, b: pl.Expr, similar: pl.Expr) -> pl.Expr:
    """Whether two texts are equal once normalised; `similar` says of which rows that is worth working out."""
    first, second = (normalised(only_where(similar, text)) for text in (a, b))
    return similar & (first == second)


def _names(conditions: Mapping[str, pl.Expr]) -> pl.Expr:
    """The names of the conditions that hold, as a list: looked up, as building lists row by row is ten times slower."""
    subsets: list[list[str]] = [[]]
    for name in conditions:
        subsets += [[*subset, name] for subset in subsets]
    bits = (holds.fill_null(value=False).cast(pl.UInt32) * 2**bit for bit, holds in enumerate(conditions.values()))
    return pl.lit(pl.Series(subsets, dtype=pl.List(pl.String))).gather(pl.sum_horizontal(bits))


def with_hashes(frame: pl.DataFrame) -> pl.DataFrame:
    """Good rows as `Comparisons`.

    pair_id is over the texts as they are, prompt_group over the normalised prompt. Rows without a prompt are grouped
    by their two normalised responses in either order, or all would be one group. Both are `digest`s, their JSON made
    by the column.
    """
    promptless, message = pl.col("said") == "", pl.element().struct
    turn = pl.format("[{},{}]", _json(message.field("role").cast(pl.String)), _json(message.field("content")))
    prompt = pl.col("prompt").list.eval(turn).list.join(",")
    either = pl.format("[[{},{}]]", _json(pl.min_horizontal("a", "b")), _json(pl.max_horizontal("a", "b")))
    said = pl.format("[{}]", _json(normalised(pl.col("said"))))
    normal = frame.lazy().with_columns(
        a=normalised(only_where(promptless, pl.col("response_a"))),
        b=normalised(only_where(promptless, pl.col("response_b"))),
    )
    texts = normal.select(
        pair_id=pl.format("[[{}],{},{}]", prompt, _json(pl.col("response_a")), _json(pl.col("response_b"))),
        prompt_group=pl.when(promptless).then(either).otherwise(said),
    )
    return frame.with_columns(_hashed(column) for column in texts.collect()).select(Comparisons.column_names())


def _json(text: pl.Expr) -> pl.Expr:
    """A text as a JSON string; polars writes JSON for structs only."""
    return pl.struct(t=text).struct.json_encode().str.strip_prefix('{"t":').str.strip_suffix("}")


def _hashed(texts: pl.Series) -> pl.Series:
    hashes = [sha256(text).hexdigest()[:32] for text in texts.cast(pl.Binary).to_list()]
    return pl.Series(texts.name, hashes, dtype=pl.String)
