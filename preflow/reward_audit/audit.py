"""What each reward pays for each attribute: `RewardedAttributes` from rewrites and scorers."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl

from preflow.reward.features import response_features
from preflow.reward_audit.attributes import OWN_FEATURES
from preflow.reward_audit.diagnostics import asymmetry, sensitivity
from preflow.reward_audit.estimators import Effect, NotIdentified, effects, mean_effect
from preflow.reward_audit.schemas import RewardedAttributes
from preflow.reward_models.scorer import Scorer

VERSIONS = ("original", "rewrite", "double")
LEAST_UNIT = 1e-6  # a reward that only compares gives every original, beside itself, the same
BY_LENGTH = "length"
"""The attribute of which the effect per doubling is told."""


def audited(rewrites: pl.DataFrame, scorers: Mapping[str, Scorer]) -> pl.DataFrame:
    """`RewardedAttributes` of every reward and attribute, sorted by both.

    Where an effect is not identified there is no number but the reason; rows that lack a rewrite or a reward are
    counted and left out, never filled in.
    Features of the text that are the attribute itself are not off target (`OWN_FEATURES`).
    """
    records = [
        _audited(reward, scorer, str(attribute), rows)
        for (attribute,), rows in rewrites.sort("attribute", "response_id")
        .partition_by("attribute", as_dict=True)
        .items()
        for reward, scorer in scorers.items()
    ]
    schema = RewardedAttributes.create_empty().schema
    return RewardedAttributes.cast(pl.DataFrame(records, schema=schema).sort("reward", "attribute"))


def _audited(reward: str, scorer: Scorer, attribute: str, rows: pl.DataFrame) -> dict[str, Any]:
    counts = dict(rows["outcome"].cast(pl.String).value_counts().rows())
    ready = rows.filter(pl.col("outcome") == "rewritten")
    rewards = np.array([scored(scorer, ready, version) for version in VERSIONS]).reshape(3, -1)
    read = np.isfinite(rewards).all(axis=0)
    ready, rewards = ready.filter(pl.Series(read)), rewards[:, read]
    record: dict[str, Any] = {
        "reward": reward,
        "attribute": attribute,
        "n1": int(ready["has"].sum() or 0),
        "n0": int((~ready["has"]).sum() or 0),
        "unclassified": counts.get("unclassified", 0),
        "not_rewritten": counts.get("no_rewrite", 0) + counts.get("no_second_rewrite", 0),
        "not_scored": int((~read).sum()),
        "asymmetric": [],
    }
    if not read.any():
        what = (
            "no response has both rewrites" if not len(read) else f"it can read none of {len(read)} rewritten responses"
        )
        return record | {"identified": False, "reason": what}
    try:
        found = effects(ready["has"].to_list(), *rewards)
    except NotIdentified as reason:
        return record | {"identified": False, "reason": str(reason)}
    gains = sides(ready, *rewards[1:]) @ np.array([1.0, -1.0])
    off_target = _off_target(ready, OWN_FEATURES.get(attribute, frozenset()))
    moved = asymmetry(off_target)
    slope = per_doubling(ready, gains) if attribute == BY_LENGTH else None
    return record | {
        "identified": True,
        "att": found.att.estimate,
        "atu": found.atu.estimate,
        **_interval("ate", found.ate),
        "ate_in_sd": found.ate.estimate / found.unit if found.unit > LEAST_UNIT else None,
        "naive": found.naive.estimate,
        "single": found.single.estimate,
        **(_interval("per_doubling", slope) if slope else {}),
        "asymmetry_p": moved.p,
        "asymmetric": moved.flagged,
        "band": sensitivity(gains, off_target, moved),
    }


def scored(scorer: Scorer, rows: pl.DataFrame, version: str) -> np.ndarray:
    """Rewards of one version of each response, [n], beside the original for a reward that only compares."""
    return scorer.rewards(rows.select("prompt", response=version, reference="original"))


def sides(rows: pl.DataFrame, rewrite: np.ndarray, double: np.ndarray) -> np.ndarray:
    """Values of the text with the attribute and of that without, both rewrites, [n, 2]."""
    has = rows["has"].to_numpy()
    return np.column_stack([np.where(has, double, rewrite), np.where(has, rewrite, double)])


def per_doubling(rows: pl.DataFrame, gains: np.ndarray) -> Effect | None:
    """The gain in reward for each doubling of the characters, a ratio of means with its delta-method interval.

    None where rewriting does not change the length.
    """
    lengths = [np.log2(rows[version].str.len_chars().to_numpy()) for version in ("rewrite", "double")]
    doublings = sides(rows, *lengths) @ np.array([1.0, -1.0])
    if not doublings.mean() > 0:
        return None
    slope = gains.mean() / doublings.mean()
    residual = mean_effect((gains - slope * doublings) / doublings.mean())
    return Effect(float(slope), residual.se, slope + residual.low, slope + residual.high)


def _off_target(rows: pl.DataFrame, own: Collection[str]) -> dict[str, np.ndarray]:
    features = [response_features(rows[version].to_list()) for version in ("rewrite", "double")]
    return {
        name: sides(rows, *(one[name].to_numpy() for one in features))
        for name in features[0].columns
        if name not in own
    }


def _interval(name: str, effect: Effect) -> dict[str, float]:
    return {name: effect.estimate, f"{name}_low": effect.low, f"{name}_high": effect.high}
