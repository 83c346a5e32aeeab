"""Whether rewriting to the attribute touches the same as rewriting away from it, and what it would cost if not.

RATE's bias is b_xi (E[xi | to 1] - E[xi | to 0]). Both texts of a unit are rewrites, so their off-target features can
be compared within the unit; marginal histograms of rewards cannot show this (Reber et al. 2025, assumption 1).
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_1samp
from statsmodels.stats.multitest import multipletests

FLAGGED = 0.01


@dataclass(frozen=True)
class Asymmetry:
    """Off-target features, by name, that differ with the direction of rewriting."""

    gaps: dict[str, float]
    """Mean of each feature in texts rewritten to the attribute less that in texts rewritten away."""
    p_values: dict[str, float]
    """Paired t-tests, Holm's correction over the features."""

    @property
    def p(self) -> float:
        """The least p-value; 1 where nothing varies."""
        return min(self.p_values.values(), default=1.0)

    @property
    def flagged(self) -> list[str]:
        """Features that differ at FLAGGED."""
        return sorted(name for name, p in self.p_values.items() if p < FLAGGED)


def asymmetry(features: dict[str, np.ndarray]) -> Asymmetry:
    """The diagnostic for features [n, 2] each: of the text with the attribute and of that without, both rewrites."""
    gains = {name: values[:, 0] - values[:, 1] for name, values in features.items()}
    moved = [name for name, gain in gains.items() if gain.std() > 0]
    raw = [float(ttest_1samp(gains[name], 0.0).pvalue) for name in moved]
    corrected = multipletests(raw, method="holm")[1] if raw else []
    constant = {name: 0.0 if gain.any() else 1.0 for name, gain in gains.items() if name not in moved}
    return Asymmetry(
        {name: float(gain.mean()) for name, gain in gains.items()},
        {**dict(zip(moved, map(float, corrected), strict=True)), **constant},
    )


def sensitivity(gains: np.ndarray, features: dict[str, np.ndarray], found: Asymmetry) -> float:
    """Half width of the band around the effect: sum over flagged features of |b_xi| |gap|.

    b_xi are the slopes of the reward's differences within units, [n], on those of the features (ordinary least
    squares with an intercept, which is the effect itself).
    """
    if not found.flagged:
        return 0.0
    differences = np.column_stack([features[name][:, 0] - features[name][:, 1] for name in found.flagged])
    design = np.column_stack([np.ones(len(gains)), differences])
    slopes = np.linalg.lstsq(design, gains, rcond=None)[0][1:]
    return float(np.abs(slopes) @ np.abs([found.gaps[name] for name in found.flagged]))
