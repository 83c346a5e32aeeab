"""Preference pairs of worlds whose responses are numbers, in the canonical form that the treatments take."""

from typing import Any

import polars as pl

from preflow.ingest.canonical import digest, pair_id_of
from preflow.schemas import PreferencePairs


def preference_row(
    prompt: str, a: str, b: str, *, chosen_is: str, scores: dict[str, float], source: str
) -> dict[str, Any]:
    """One row of `PreferencePairs` for two responses with their scores, whichever of them is said to be better."""
    messages = [{"role": "user", "content": prompt}]
    rejected_is = "b" if chosen_is == "a" else "a"
    texts = {"a": a, "b": b}
    return {
        "pair_id": pair_id_of(messages, a, b),
        "prompt": messages,
        "chosen": texts[chosen_is],
        "rejected": texts[rejected_is],
        "chosen_is": chosen_is,
        "label_source": "scores",
        "n_votes": 0,
        "vote_share": 1.0,
        "agreement": 1.0,
        "score_chosen": scores[chosen_is],
        "score_rejected": scores[rejected_is],
        "margin": scores[chosen_is] - scores[rejected_is],
        "prompt_group": digest(prompt),
        "split": "train",
        "source": source,
        "flags": [],
    }


def preference_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """The rows as `PreferencePairs`, in order of pair_id."""
    return PreferencePairs.cast(pl.DataFrame(rows, schema_overrides={"flags": pl.List(pl.String)}).sort("pair_id"))
