"""Rewrites that a user brings, in the form in which RATE's authors keep theirs: a JSON object a line.

    {"w_original": true, "reward_question": "...", "completions": {"original": "...", "rewrite": "...",
     "rewritten rewrite": "..."}, "attribute": "sentiment"}

`attribute` is ours: without it the rows are of one attribute, `brought`.
"""

from pathlib import Path
from typing import Any

import polars as pl

from preflow.ingest.canonical import digest
from preflow.reward_audit.schemas import Rewrites
from preflow.sources.readers import read_file
from preflow.sources.records import Refusal

BROUGHT = "brought"
FORM = '{"w_original": true, "reward_question": "...", "completions": {"original": "...", "rewrite": "...", ...}}'


def brought_rewrites(path: Path) -> pl.DataFrame:
    """`Rewrites` of a jsonl file, none of an empty one; what lacks a rewrite or its class is kept with its outcome.

    Raises
    ------
    ValueError
        A line is no such object; the place and the form are named.
    """
    rows = []
    for item in read_file(path, str(path)):
        if isinstance(item, Refusal):
            raise ValueError(f"{path}, line {item.line}: {item.detail}")  # noqa: TRY004
        rows.append(_row(item.value, f"{path}, line {item.line}"))
    table = pl.DataFrame(rows, schema=Rewrites.create_empty().schema)
    return Rewrites.cast(table.unique(["response_id", "attribute"], keep="first").sort("attribute", "response_id"))


def _row(value: Any, place: str) -> dict[str, Any]:
    completions = value.get("completions") if isinstance(value, dict) else None
    texts: dict[str, Any] = completions if isinstance(completions, dict) else {}
    original = texts.get("original")
    if not original:
        raise ValueError(f"{place}: no original response; each line is {FORM}")
    has, question = value.get("w_original"), str(value.get("reward_question", ""))
    once, twice = (texts.get(name) or None for name in ("rewrite", "rewritten rewrite"))
    prompt = [{"role": "user", "content": question}]
    missing = "unclassified" if has is None else "no_rewrite" if once is None else "no_second_rewrite"
    return {
        "response_id": digest([["user", question]], original),
        "attribute": value.get("attribute", BROUGHT),
        "prompt_group": digest(question),
        "prompt": prompt,
        "outcome": missing if has is None or twice is None or once is None else "rewritten",
        "has": None if has is None else bool(has),
        "original": original,
        "rewrite": once,
        "double": None if once is None else twice,
    }
