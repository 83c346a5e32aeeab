"""A world of rewards in which the effect of an attribute is known: Reber et al. 2025, one binary off-target feature.

R = (effect + effect_by_z Z) W + b_z Z + b_xi xi + noise. Rewriting leaves Z alone and draws xi anew: with probability
q01 when it brings the attribute, q10 when it takes it away. xi and Z go with W in the originals, which confounds
whoever compares those.
"""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, kw_only=True)
class World:
    """What rewards are made of; probabilities given W = 1 and W = 0."""

    p1: float = 0.8
    """P(xi) in originals that have the attribute."""
    p0: float = 0.05
    q01: float = 0.1
    q10: float = 0.1
    z1: float = 0.5
    """P(Z) where the attribute is."""
    z0: float = 0.5
    effect: float = 1.0
    effect_by_z: float = 0.0
    b_z: float = 0.0
    b_xi: float = -0.5
    noise: float = 0.0


@dataclass(frozen=True)
class Units:
    """Attribute, off-target feature and reward of n responses, their rewrites and the rewrites of those, [n] each."""

    has: np.ndarray
    xi: tuple[np.ndarray, np.ndarray, np.ndarray]
    rewards: tuple[np.ndarray, np.ndarray, np.ndarray]
    """Original, rewrite, double."""

    def with_original_as_double(self) -> "Units":
        """The usual fake: the original stands in for the second rewrite."""
        first, second, _ = self.rewards
        return replace(self, rewards=(first, second, first))


def drawn(world: World, n: int, *, seed: int) -> Units:
    """`n` responses, about half of which have the attribute."""
    rng = np.random.default_rng(seed)
    has = rng.random(n) < 0.5
    z = rng.random(n) < np.where(has, world.z1, world.z0)
    away, bring = world.q10, world.q01
    xi = (
        rng.random(n) < np.where(has, world.p1, world.p0),
        rng.random(n) < np.where(has, away, bring),
        rng.random(n) < np.where(has, bring, away),
    )
    rewards = [
        (world.effect + world.effect_by_z * z) * w + world.b_z * z + world.b_xi * x + world.noise * rng.normal(size=n)
        for w, x in zip((has, ~has, has), xi, strict=True)
    ]
    return Units(has, xi, (rewards[0], rewards[1], rewards[2]))
