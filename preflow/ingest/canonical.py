"""From the rows of adapters to canonical columns: content hashes, the checks of each row, and its flags."""

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa

from preflow.formats.base import Message, Row, Stated, Vote, as_json
from preflow.schemas import ROLES, Comparisons
from preflow.text import conversation, normalised, opening

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
    said = rows.with_columns(
        said=conversation(pl.col("prompt")),
        similar=opening(a, words=WORDS_COMPARED) == opening(b, words=WORDS_COMPARED),
    )
    longest = pl.max_horizontal(pl.col(name).str.len_chars() for name in ("said", "response_a", "response_b", "extra"))
    refusals = {
        "field_too_long": (longest > max_field_chars, pl.format("a field has {} characters", longest)),
        "empty_response": ((a == "") | (b == ""), pl.lit("a response has no characters")),
        "whitespace_response": (_blank(a) | _blank(b), pl.lit("a response is nothing but white space")),
        "identical_responses": (a == b, pl.lit("the two responses are the same")),
        "no_contrast": (
            pl.col("by_margin") & (margin < min_score_margin),
            pl.format("scores {} and {}: the margin is below {}", "score_a", "score_b", pl.lit(min_score_margin)),
        ),
    }
    label, lead = pl.col("label"), pl.col("score_a") - pl.col("score_b")
    texts = ("said", "response_a", "response_b")
    flags = {
        "identical_normalised": _same_normalised(a, b, pl.col("similar")),
        "special_tokens_in_text": pl.any_horizontal(pl.col(name).str.contains(SPECIAL_TOKENS) for name in texts),
        "score_label_mismatch": ((label == "a") & (lead < 0)) | ((label == "b") & (lead > 0)),
    }
    found = [pl.when(doubt).then(pl.lit(name)) for name, doubt in flags.items()]
    return said.with_columns(
        reason=pl.coalesce(pl.when(bad).then(pl.lit(name)) for name, (bad, _) in refusals.items()),
        detail=pl.coalesce(pl.when(bad).then(detail) for bad, detail in refusals.values()),
        flags=pl.col("flags").list.concat(pl.concat_list(found).list.drop_nulls()),
    )


def _blank(text: pl.Expr) -> pl.Expr:
    return ~text.str.contains(r"\S")


def _same_normalised(a: pl.Expr, b: pl.Expr, similar: pl.Expr) -> pl.Expr:
    """Whether two texts are equal once normalised; `similar` says of which rows that is worth working out."""
    return similar & (normalised(_where(similar, a)) == normalised(_where(similar, b)))


def _where(condition: pl.Expr, text: pl.Expr) -> pl.Expr:
    """The text, or "" where the condition does not hold; polars would work on the text behind a null all the same."""
    return pl.when(condition).then(text).otherwise(pl.lit(""))


def with_hashes(frame: pl.DataFrame, rows: Sequence[Row]) -> pl.DataFrame:
    """Good rows, as a frame and as they were stated, as `Comparisons`.

    pair_id is over the texts as they are, prompt_group over the normalised prompt. Rows without a prompt are grouped
    by their two normalised responses in either order, or all would be one group.
    """
    promptless = pl.col("said") == ""
    normal = frame.select(
        normalised(pl.col("said")),
        a=normalised(_where(promptless, pl.col("response_a"))),
        b=normalised(_where(promptless, pl.col("response_b"))),
    )
    groups = [digest(said) if said else digest(sorted([a, b])) for said, a, b in normal.iter_rows()]
    pair_ids = [pair_id_of(row.prompt, row.response_a, row.response_b) for row in rows]
    return frame.with_columns(
        pair_id=pl.Series(pair_ids, dtype=pl.String), prompt_group=pl.Series(groups, dtype=pl.String)
    ).select(Comparisons.column_names())
