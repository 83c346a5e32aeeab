"""Small comparisons and votes for the tests of the audit library."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl

from preflow.schemas import Comparisons, Votes


def content_hash(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


def comparison(prompt: str, a: str, b: str, **fields: Any) -> dict[str, Any]:
    row = dict.fromkeys(Comparisons.columns()) | {
        "pair_id": content_hash(prompt, a, b),
        "prompt": [{"role": "user", "content": prompt}] if prompt else [],
        "response_a": a,
        "response_b": b,
        "prompt_group": content_hash(" ".join(prompt.lower().split())),
        "source": "test",
        "source_file": "test.jsonl",
        "source_line": 1,
        "flags": [],
    }
    return row | fields


def comparisons(rows: list[dict[str, Any]]) -> pl.LazyFrame:
    return pl.LazyFrame(rows, schema=Comparisons.create_empty().schema)


def vote(pair_id: str, annotator: str, choice: str, **fields: Any) -> dict[str, Any]:
    row = dict.fromkeys(Votes.columns()) | {
        "pair_id": pair_id,
        "annotator": annotator,
        "annotator_kind": "person",
        "choice": choice,
        "source_file": "test.jsonl",
        "source_line": 1,
        "flags": [],
    }
    return row | fields


def votes(rows: list[dict[str, Any]]) -> pl.LazyFrame:
    named = [row | {"vote_id": content_hash(str(i))} for i, row in enumerate(rows)]
    return pl.LazyFrame(named, schema=Votes.create_empty().schema)


def argument_pairs(data: Path) -> pl.LazyFrame:
    """UKPConvArg1: the same 500 arguments in 8,000 pairs."""
    with gzip.open(data / "ukpconvarg1/DERIVED_pairs.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    made = [comparison(f"{row['title']} {row['stance']}", row["arg1"], row["arg2"]) for row in rows]
    return comparisons(list({row["pair_id"]: row for row in made}.values()))


def judged_items(data: Path) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """LLMBar: gold labels and the votes of 65 judges, each asked in both orders; unreadable verdicts left out."""
    raw = pl.read_csv(data / "llmbar/DERIVED_evaluator_votes.csv.gz", infer_schema=False).drop_nulls("winner")
    letter = {"1": "a", "2": "b"}
    items = raw.select("subset", "item", "gold").unique().sort("subset", "item")
    rows = [comparison(f"{subset} {item}", "one", "two", gold=letter[gold]) for subset, item, gold in items.iter_rows()]
    given = [
        vote(
            content_hash(f"{row['subset']} {row['item']}", "one", "two"),
            row["evaluator"],
            letter[row["winner"]],
            annotator_kind="model",
            shown_first="b" if row["orientation"] == "swap = True" else "a",
        )
        for row in raw.iter_rows(named=True)
    ]
    return comparisons(rows), votes(given)
