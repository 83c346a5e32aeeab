"""RATE: the effect of an attribute of the response on a reward, from rewrites of rewrites.

Reber et al., "RATE: Causal Explainability of Reward Models with Imperfect Counterfactuals", ICML 2025 (arXiv
2410.11348), Algorithm 1. A rewrite changes more than the attribute W. So two rewrites are compared, never a rewrite
with its original: what rewriting itself does then stands on both sides. With Re(y, w) a rewrite of y to W = w,

    ATT = mean over w = 1 of R(Re(Re(y, 0), 1)) - R(Re(y, 0))
    ATU = mean over w = 0 of R(Re(y, 1)) - R(Re(Re(y, 1), 0))
    ATE = (n1 ATT + n0 ATU) / (n1 + n0).

Unbiased where what rewriting touches does not depend on its direction, and adds to the reward (Theorem 4.1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

LEVEL = 0.95


class NotIdentified(ValueError):  # noqa: N818
    """The data do not say what the effect is."""


class MissingRewrites(NotIdentified):
    """A reward of a rewrite is missing."""


class Unclassified(NotIdentified):
    """It is not known whether a response has the attribute."""


@dataclass(frozen=True)
class Effect:
    """A mean with its standard error and 95 % interval."""

    estimate: float
    se: float
    low: float
    high: float


@dataclass(frozen=True)
class Effects:
    """What the attribute does to the reward, in units of the reward."""

    n1: int
    """Responses that have the attribute."""
    n0: int
    att: Effect
    """On responses that have it."""
    atu: Effect
    """On responses that have it not."""
    ate: Effect
    """On all."""
    naive: Effect
    """Rewards with less rewards without: confounded by all else that differs."""
    single: Effect
    """Originals beside their one rewrite: confounded by what rewriting does."""
    unpaired_se: float
    """Standard error of `ate` were the texts of a unit unrelated, as the authors' code has it."""
    unit: float
    """Standard deviation of the original rewards: divide by it to compare rewards."""


def effects(
    has: Sequence[bool | None] | np.ndarray, original: np.ndarray, rewrite: np.ndarray, double: np.ndarray
) -> Effects:
    """RATE with paired intervals, and the naive and single-rewrite estimates beside it.

    Parameters
    ----------
    has
        Whether the original has the attribute, [n].
    original, rewrite, double
        Rewards of the original, of its rewrite to the other value, and of that one's rewrite back, [n] each.

    Raises
    ------
    Unclassified
        `has` is None somewhere.
    MissingRewrites
        A reward is NaN or infinite.
    NotIdentified
        One of the two groups has fewer than two responses.
    """
    w, texts = _checked(has, original, rewrite, double)
    with_it, without = np.where(w, texts[2], texts[1]), np.where(w, texts[1], texts[2])
    gains, sign = with_it - without, np.where(w, 1.0, -1.0)
    return Effects(
        n1=int(w.sum()),
        n0=int((~w).sum()),
        att=mean_effect(gains[w]),
        atu=mean_effect(gains[~w]),
        ate=mean_effect(gains),
        naive=_two_samples(texts[0][w], texts[0][~w]),
        single=mean_effect(sign * (texts[0] - texts[1])),
        unpaired_se=float(np.sqrt(with_it.var(ddof=1) / len(w) + without.var(ddof=1) / len(w))),
        unit=float(texts[0].std(ddof=1)),
    )


def mean_effect(gains: np.ndarray) -> Effect:
    """The mean of differences within units, [n], with its standard error."""
    return _effect(float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains))))


def _two_samples(first: np.ndarray, second: np.ndarray) -> Effect:
    se = np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second))
    return _effect(float(first.mean() - second.mean()), float(se))


def _effect(estimate: float, se: float) -> Effect:
    half = float(norm.ppf((1 + LEVEL) / 2)) * se
    return Effect(estimate, se, estimate - half, estimate + half)


def _checked(has: Sequence[bool | None] | np.ndarray, *rewards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Attribute and rewards, bool [n] and float64 [3, n]."""
    known = [value is not None for value in has]
    if not all(known):
        raise Unclassified(
            f"{known.count(False)} of {len(known)} responses are unclassified; leave them out and say so"
        )
    texts = np.array(rewards, dtype=np.float64)
    if missing := int((~np.isfinite(texts)).any(axis=0).sum()):
        raise MissingRewrites(
            f"{missing} of {len(known)} responses lack the reward of the original, its rewrite or the rewrite of that; "
            "leave them out and say so: an original in place of its second rewrite brings the bias back"
        )
    w = np.array(has, dtype=bool)
    if min(w.sum(), (~w).sum()) < 2:
        raise NotIdentified(f"{w.sum()} responses have the attribute and {(~w).sum()} do not: at least two of each")
    return w, texts
