"""Difficulty selection: train on the share of pairs that a model finds easiest, in that order (Gao et al., 2025).

Beside it stand its controls of equal size: the hardest share and a random one. The share is measured on validation
(`best_on_validation`), not assumed. Scores: `preflow/treatments/difficulty.py`; source: `docs/selective_dpo.md`.
"""

from fractions import Fraction

import numpy as np
import polars as pl

from preflow.treatments.schemas import CARRIED, TreatedPairs

SUSPICIOUS = 0.5
"""Above, every seed's held-out model rather prefers the other response."""


def select_easiest(pairs: pl.DataFrame, scores: pl.DataFrame, *, share: float, curriculum: bool) -> pl.DataFrame:
    """The easiest `share` of the pairs and why the others were left out, as `TreatedPairs` in order of pair_id.

    Left out are flip_suspected (flip_suspicion above 0.5) and too_hard (the rest of the hardest) pairs, and those with
    identical_responses, which are set aside before the share is taken. Of n others exactly floor(share n) are kept;
    of equally hard ones those with the smaller id.

    Parameters
    ----------
    pairs
        `PreferencePairs`, or rows that another treatment kept.
    scores
        `DifficultyScores` of one model, one row for each pair or more.
    share
        In (0, 1].
    curriculum
        Whether training goes from easy to hard; else the trainer shuffles.

    Raises
    ------
    ValueError
        A pair has no score, the scores are of several models, the share is outside (0, 1] or keeps no pair.
    """
    ranked, rest = _ranked(pairs, scores)
    kept = _kept_count(share, len(ranked))
    place = pl.int_range(pl.len())
    left_out = (
        pl.when(pl.col("flip_suspicion") > SUSPICIOUS).then(pl.lit("flip_suspected")).otherwise(pl.lit("too_hard"))
    )
    rows = ranked.with_columns(
        kept=place < kept,
        reason=pl.when(place < kept).then(pl.lit("easiest")).otherwise(left_out),
        order=pl.when(place < kept, pl.lit(curriculum)).then(place),
    )
    return _treated([rows, rest], "easiest_share")


def select_hardest(pairs: pl.DataFrame, scores: pl.DataFrame, *, share: float) -> pl.DataFrame:
    """Control: the hardest `share` of the pairs, unordered; the form and the errors of `select_easiest`."""
    ranked, rest = _ranked(pairs, scores)
    kept = pl.int_range(pl.len()) >= len(ranked) - _kept_count(share, len(ranked))
    return _treated([_with_reasons(ranked, kept, "hardest", "too_easy"), rest], "hardest_share")


def select_random(pairs: pl.DataFrame, *, share: float, seed: int) -> pl.DataFrame:
    """Control: a random `share` of the pairs, the same for the same set of pairs and seed, in the same form.

    Raises
    ------
    ValueError
        The share is outside (0, 1] or keeps no pair.
    """
    different, rest = _set_apart(pairs)
    drawn = np.random.default_rng(seed).permutation(len(different)) < _kept_count(share, len(different))
    return _treated([_with_reasons(different, pl.Series(drawn), "drawn", "not_drawn"), rest], "random_share")


def _ranked(pairs: pl.DataFrame, scores: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The pairs from easy to hard, and those with identical responses."""
    models = scores["scored_by"].unique().sort().to_list()
    if len(models) != 1:
        raise ValueError(
            f"difficulty is a model's own; give the scores of one model, not of {len(models)}: {models[:3]}"
        )
    different, rest = _set_apart(pairs)
    columns = scores.select("pair_id", "difficulty", "flip_suspicion")
    ranked = different.join(columns, on="pair_id", how="left", validate="1:1")
    unscored = ranked.filter(pl.col("difficulty").is_null())["pair_id"]
    if len(unscored):
        raise ValueError(
            f"{len(unscored)} of {len(ranked)} pairs have no difficulty, first {unscored[0]}: score them first"
        )
    return ranked.sort("difficulty", "pair_id"), rest


def _set_apart(pairs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Pairs whose responses differ, by pair_id, and the others with their reason."""
    rows, same = pairs.select(CARRIED).sort("pair_id"), pl.col("chosen") == pl.col("rejected")
    rest = rows.filter(same).with_columns(kept=pl.lit(value=False), reason=pl.lit("identical_responses"))
    return rows.filter(~same), rest


def _kept_count(share: float, n: int) -> int:
    """floor(share n) of the share as it is written: in floating point 0.29 * 100 is less than 29."""
    if not 0 < share <= 1:
        raise ValueError(f"share={share}: a number above 0 and at most 1 is needed")
    kept = int(Fraction(str(share)) * n)
    if kept == 0:
        raise ValueError(f"a share of {share} of {n} pairs keeps none; raise the share, or bring more pairs")
    return kept


def _with_reasons(rows: pl.DataFrame, kept: pl.Expr | pl.Series, why: str, why_not: str) -> pl.DataFrame:
    reason = pl.when(pl.col("kept")).then(pl.lit(why)).otherwise(pl.lit(why_not))
    return rows.with_columns(kept=kept).with_columns(reason=reason)


def _treated(parts: list[pl.DataFrame], treatment: str) -> pl.DataFrame:
    form = TreatedPairs.create_empty().schema
    empty = pl.DataFrame(schema={name: form[name] for name in ("share", "goal", "order")})
    rows = pl.concat([*parts, empty], how="diagonal").with_columns(
        treatment=pl.lit(treatment), source_pair_id="pair_id"
    )
    return TreatedPairs.cast(rows.sort("pair_id"))
