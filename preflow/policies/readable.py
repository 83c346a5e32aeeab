"""Which preference pairs a policy can be trained on: those that its tokenizer can read within the limits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from transformers import PreTrainedTokenizerFast

from preflow.lm.chat import Encoded, Encodings, encode_pairs
from preflow.policies.recipe import Recipe
from preflow.treatments.schemas import CARRIED, TreatedPairs

UNTREATED = "untreated"
READABLE, UNKNOWN_WORDS, NOT_DRAWN, TOO_FEW = "readable", "unknown_words", "not_drawn", "too_few_readable"


def untreated_pairs(
    pairs: pl.DataFrame,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    *,
    max_pairs: int,
    min_pairs: int,
    seed: int,
) -> pl.DataFrame:
    """The pairs as they are, as `TreatedPairs` in order of pair_id, with a reason for each that cannot be used.

    Left out are pairs that `encode_pairs` refuses (its reasons), `unknown_words` (a token is the tokenizer's unknown
    token, so that the policy would learn of something else), `not_drawn` (of each split at most `max_pairs` are used,
    in whole prompt groups drawn at random) and `too_few_readable`: where fewer than `min_pairs` of the train split
    can be read, or none of another split, no pair is used.
    """
    rows = pairs.select(CARRIED).sort("pair_id")
    encoded = encode_rows(rows, tokenizer, recipe)
    reasons = [_reason(encoded, row, tokenizer.unk_token_id) for row in range(len(rows))]
    rows = rows.with_columns(reason=pl.Series(reasons, dtype=pl.String))
    readable = rows.filter(pl.col("reason") == READABLE)
    drawn = _drawn(readable, max_pairs, seed)
    enough = _enough(readable, min_pairs) and _enough(readable.filter(pl.col("pair_id").is_in(drawn)), 1)
    instead = NOT_DRAWN if enough else TOO_FEW
    left = (pl.col("reason") == READABLE) & (~pl.col("pair_id").is_in(drawn) | pl.lit(not enough))
    rows = rows.with_columns(reason=pl.when(left).then(pl.lit(instead)).otherwise("reason"))
    form = TreatedPairs.create_empty().schema
    return TreatedPairs.cast(
        rows.with_columns(
            *(pl.lit(None, dtype=form[name]).alias(name) for name in ("share", "goal", "order")),
            source_pair_id="pair_id",
            treatment=pl.lit(UNTREATED),
            kept=pl.col("reason") == READABLE,
        )
    )


def encode_rows(
    rows: pl.DataFrame, tokenizer: PreTrainedTokenizerFast, recipe: Recipe
) -> Encodings[tuple[Encoded, Encoded]]:
    """(chosen, rejected) of each row as token ids, by row number; see `encode_pairs`."""
    return encode_pairs(
        tokenizer,
        rows["prompt"].to_list(),
        rows["chosen"].to_list(),
        rows["rejected"].to_list(),
        max_prompt_tokens=recipe.max_prompt_tokens,
        max_response_tokens=recipe.max_response_tokens,
    )


def reading(untreated: pl.DataFrame) -> dict[str, Any]:
    """Rows by split and reason, and in `not_studied` why no pair is used, null where pairs are."""
    counts = untreated.group_by("split", "reason").len().sort("split", "reason").rows()
    found: dict[str, Any] = {split: {} for split, _, _ in counts}
    for split, reason, n in counts:
        found[split][reason] = n
    return found | {"not_studied": None if untreated["kept"].any() else _why(untreated)}


def _why(untreated: pl.DataFrame) -> str:
    reasons = untreated["reason"].value_counts().sort("count", "reason", descending=True).rows()
    told = ", ".join(f"{reason} {n}" for reason, n in reasons)
    return (
        f"the start policy can read too few of {len(untreated)} pairs ({told or 'there is none'}); "
        "name a policy that knows these words in policy.start, or raise the limits of training.recipe"
    )


def _reason(encoded: Encodings[tuple[Encoded, Encoded]], row: int, unknown: int | None) -> str:
    if row in encoded.refused:
        return encoded.refused[row]
    return UNKNOWN_WORDS if any(unknown in side.ids for side in encoded.rows[row]) else READABLE


def _enough(readable: pl.DataFrame, least: int) -> bool:
    counts = dict(readable.group_by("split").len().rows())
    return counts.get("train", 0) >= least and counts.get("validation", 0) > 0 and counts.get("test", 0) > 0


def _drawn(rows: pl.DataFrame, most: int, seed: int) -> Sequence[str]:
    """Ids of at most `most` pairs of each split; a prompt group is taken whole or not at all."""
    groups = rows.group_by("split", "prompt_group").len("pairs").sort("split", "prompt_group")
    lots = groups.with_columns(lot=np.random.default_rng(seed).permutation(len(groups))).sort("lot")
    room, fits = dict.fromkeys(groups["split"].unique(), most), []
    for split, group, pairs, _ in lots.rows():
        if pairs <= room[split]:
            room[split] -= pairs
            fits.append(group)
    return rows.filter(pl.col("prompt_group").is_in(fits))["pair_id"].to_list()
