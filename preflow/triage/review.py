"""The review queue out to people and their decisions back in, as data: nothing is edited in place.

Spreadsheets run a cell that starts with = + - @ (OWASP, "CSV injection"). In csv such a text gets an apostrophe before
it, which is taken away on the way back in; jsonl holds the texts byte for byte.
"""

import csv
import io
from pathlib import Path
from typing import Literal

import polars as pl

from preflow.pairs import Verdicts
from preflow.text import conversation
from preflow.triage.schemas import DECISIONS, Overrides, RefusedOverrides

WORTH_A_LOOK = ("review", "relabel")
"""Recommendations that a person should confirm."""
_NUMBERS = ("n_votes", "agreement", "worker_share", "suspected_flip", "reward_gap", "opposite_sides", "difficulty")
_WORDS = ("recommendation", "rule", "label", "label_source", "majority", "agreement_class", "careful_class")
_GIVEN = ("decision", "reviewer", "note")
# What starts a formula, also in full width; a tab, a carriage return and a line feed are skipped by some programs.
_DANGEROUS = "^'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"


def review_queue(table: pl.LazyFrame, comparisons: pl.LazyFrame, *, size: int) -> pl.DataFrame:
    """The `size` comparisons most worth a look, first the greatest expected value, with their texts and the evidence.

    Columns decision, reviewer and note are empty: decision takes a, b, tie or drop.

    Raises
    ------
    ValueError
        `size` is below 1.
    """
    if size < 1:
        raise ValueError(f"size={size}: a review queue needs at least one row")
    chosen = table.filter(pl.col("recommendation").cast(pl.String).is_in(WORTH_A_LOOK))
    first = chosen.sort(["expected_value", "pair_id"], descending=[True, False]).head(size)
    texts = comparisons.select("pair_id", "response_a", "response_b", prompt=conversation(pl.col("prompt")))
    causes = pl.element().struct["label"] + " (" + pl.element().struct["source"] + ")"
    rows = first.join(texts, on="pair_id", how="left", maintain_order="left").select(
        "pair_id",
        *(pl.lit(None, dtype=pl.String).alias(name) for name in _GIVEN),
        "prompt",
        "response_a",
        "response_b",
        *(pl.col(name).cast(pl.String) for name in _WORDS),
        pl.col("reasons").list.eval(causes).list.join(", "),
        "expected_value",
        *_NUMBERS,
    )
    return rows.collect()


def write_queue(queue: pl.DataFrame, path: Path) -> None:
    """Write the queue as .csv or .jsonl, as the name says; the same queue gives the same bytes.

    Raises
    ------
    ValueError
        The name ends otherwise.
    """
    if _kind(path) == "jsonl":
        queue.write_ndjson(path)
        return
    escaped = queue.with_columns(_escaped(pl.col(name)) for name in _texts(queue))
    escaped.write_csv(path, quote_style="non_numeric", line_terminator="\r\n")


def read_queue(path: Path) -> pl.DataFrame:
    """What `write_queue` wrote, and people filled in, with every column as text; an empty cell is null.

    Raises
    ------
    ValueError
        The name ends otherwise than .csv or .jsonl, the text is not UTF-8, or pair_id, decision or reviewer is missing.
    """
    kind = _kind(path)
    try:
        data = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 ({error.reason}); save it as UTF-8") from error
    if kind == "jsonl":
        rows = pl.read_ndjson(io.StringIO(data), infer_schema_length=None).with_columns(pl.all().cast(pl.String))
    else:
        reader = csv.DictReader(io.StringIO(data, newline=""), strict=True)
        cells = [{name: row[name] or None for name in reader.fieldnames or ()} for row in reader]
        rows = pl.DataFrame(cells, schema=dict.fromkeys(reader.fieldnames or (), pl.String))
        rows = rows.with_columns(_unescaped(pl.col(name)) for name in rows.columns)
    missing = [name for name in ("pair_id", "decision", "reviewer") if name not in rows.columns]
    if missing:
        raise ValueError(f"{path.name} has no column {', '.join(missing)}; keep the headings of the exported queue")
    return rows if "note" in rows.columns else rows.with_columns(note=pl.lit(None, dtype=pl.String))


def overrides(filled: pl.DataFrame, comparisons: pl.LazyFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The decisions of a filled queue, `Overrides` by pair and reviewer, and `RefusedOverrides` in order of the rows.

    Several files are first put one below the other. Rows without a decision were not reviewed and are in neither.
    Refused are unknown_pair, unknown_decision (not a, b, tie or drop), no_reviewer, repeated (the same reviewer said so
    already) and conflicting_decisions: all rows of a pair on which decisions differ.
    """
    stated = filled.with_row_index("row", offset=1).select(
        pl.col("row").cast(pl.Int64), *(pl.col(name).str.strip_chars() for name in ("pair_id", *_GIVEN))
    )
    given = stated.filter(pl.col("decision").fill_null("") != "").with_columns(pl.col("note").replace("", None))
    known = comparisons.select("pair_id", known=pl.lit(value=True)).collect()
    problem = (
        pl.when(pl.col("known").is_null())
        .then(pl.lit("unknown_pair"))
        .when(~pl.col("decision").is_in(DECISIONS))
        .then(pl.lit("unknown_decision"))
        .when(pl.col("reviewer").fill_null("") == "")
        .then(pl.lit("no_reviewer"))
    )
    rows = given.join(known, on="pair_id", how="left", maintain_order="left").with_columns(reason=problem)
    sound = pl.col("reason").is_null()
    decisions = pl.col("decision").filter(sound).n_unique().over("pair_id")
    again = pl.int_range(pl.len()).over("pair_id", "reviewer", "reason") > 0
    doubts = pl.when(decisions > 1).then(pl.lit("conflicting_decisions")).when(again).then(pl.lit("repeated"))
    judged = rows.with_columns(reason=pl.when(sound).then(doubts).otherwise("reason"))
    names = ("pair_id", *_GIVEN)
    kept = judged.filter(pl.col("reason").is_null()).select(names).sort("pair_id", "reviewer")
    refused = judged.filter(pl.col("reason").is_not_null()).select("row", "reason", *names).sort("row")
    return Overrides.validate(kept, cast=True), RefusedOverrides.validate(refused, cast=True)


def apply_overrides(decided: pl.LazyFrame, decisions: pl.LazyFrame) -> pl.DataFrame:
    """`Verdicts` in which the decisions of `Overrides` replace what was decided before; the input stays as it is.

    A person has verified these labels, so their label_source is gold and their weight 1. A dropped pair is undecided,
    with neither verdict nor source: nothing is trained on it.

    Raises
    ------
    ValueError
        A decision is on a pair that has no verdict row.
    """
    said = decisions.select("pair_id", pl.col("decision").cast(pl.String)).unique()
    strangers = said.join(decided, on="pair_id", how="anti").collect()["pair_id"].sort()
    if len(strangers):
        raise ValueError(f"{len(strangers)} overrides are on pairs without a verdict, first {strangers[0]}")
    decision = pl.col("decision")
    outcome = decision.replace_strict(
        {"a": "pair", "b": "pair", "tie": "tie", "drop": "undecided"}, return_dtype=pl.String
    )
    label = pl.when(decision != "drop").then(decision)
    source = pl.when(decision != "drop").then(pl.lit("gold"))
    changed = {"outcome": outcome, "verdict": label, "label_source": source}
    before = {name: pl.col(name).cast(pl.String) for name in changed}
    rows = decided.join(said, on="pair_id", how="left").with_columns(
        pl.when(decision.is_null()).then(before[name]).otherwise(value).alias(name) for name, value in changed.items()
    )
    return Verdicts.cast(rows.drop("decision").sort("pair_id").collect())


def _kind(path: Path) -> Literal["csv", "jsonl"]:
    if path.suffix == ".csv":
        return "csv"
    if path.suffix == ".jsonl":
        return "jsonl"
    raise ValueError(f"{path.name}: a review queue is a .csv or a .jsonl")


def _texts(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind == pl.String]


def _escaped(text: pl.Expr) -> pl.Expr:
    return pl.when(text.str.contains(_DANGEROUS)).then(pl.lit("'") + text).otherwise(text).name.keep()


def _unescaped(text: pl.Expr) -> pl.Expr:
    marked = text.str.contains(_DANGEROUS) & text.str.starts_with("'")
    return pl.when(marked).then(text.str.slice(1)).otherwise(text).name.keep()
