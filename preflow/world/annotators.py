"""Simulated annotators whose noise and tastes are known, so that what is inferred from their votes can be checked.

An annotator perceives the difference of the gold scores, plus what their tastes add, plus logistic noise; too small a
perceived difference is a tie. That is the model of Rao and Kupper (1967, "Ties in paired-comparison experiments"), a
Bradley-Terry model with a threshold, in units of gold points.
"""

import re
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import expit

from preflow.reward.features import REFUSAL
from preflow.schemas import CHOICES
from preflow.world.verifiable import words

# Perceived differences (in gold points) from which a preference is called clear, and overwhelming.
CLEAR, OVERWHELMING = 2.0, 5.0


@dataclass(frozen=True)
class Annotator:
    """How one annotator judges; every taste is in gold points, and zero where there is none."""

    name: str
    noise: float
    """Scale of the logistic noise."""
    tie_below: float
    """A smaller perceived difference is called a tie."""
    longer: float = 0.0
    """What a response gains per doubling of its words."""
    listed: float = 0.0
    """What a response gains for list items or braces."""
    refusal: float = 0.0
    """What a response gains for declining or apologising."""
    first: float = 0.0
    """What the response shown first gains."""
    flip_rate: float = 0.0
    """Probability that a and b are mixed up when the vote is entered."""
    careless: tuple[int, int] = (0, 0)
    """Stretch of the annotator's own votes (from, up to) that are given at random."""


ANNOTATORS = (
    Annotator("ann_exact", noise=0.6, tie_below=1.0),
    Annotator("ann_wordy", noise=1.0, tie_below=0.3, longer=2.0),
    Annotator("ann_tidy", noise=1.0, tie_below=0.8, listed=4.0),
    Annotator("ann_hasty", noise=2.0, tie_below=0.2, first=1.5, flip_rate=0.1),
    Annotator("ann_drifting", noise=0.8, tie_below=1.0, careless=(200, 320)),
)


def is_listed(response: str) -> bool:
    """Whether a response looks formatted: a line that starts as a list item, or a brace."""
    return re.search(r"^\s*(?:[-*]|\d+[.)])\s|[{}]", response, re.MULTILINE) is not None


def is_refusal(response: str) -> bool:
    """Whether a response declines or apologises in the phrases that `preflow.reward.features` counts."""
    return re.search(REFUSAL, response) is not None


def appeal(annotator: Annotator, response: str, score: float) -> float:
    """What a response is worth to an annotator, in gold points, before noise and position."""
    doublings = float(np.log2(1 + len(words(response))))
    tastes = annotator.longer * doublings + annotator.listed * is_listed(response)
    return score + tastes + annotator.refusal * is_refusal(response)


def utility(annotator: Annotator, pairs: pl.DataFrame) -> np.ndarray:
    """(n,) appeal of a less that of b, the gain of the first shown included.

    `pairs` has the columns response_a, response_b, score_a, score_b, shown_first.
    """
    a, b = (
        np.array([appeal(annotator, *row) for row in pairs.select(f"response_{side}", f"score_{side}").iter_rows()])
        for side in "ab"
    )
    return a - b + annotator.first * np.where(pairs["shown_first"].to_numpy() == "a", 1.0, -1.0)


def choice_probabilities(annotator: Annotator, utility: np.ndarray) -> np.ndarray:
    """(n, 3) probabilities of a, b and tie outside the careless stretch: Rao and Kupper's model, then flips."""
    a = expit((utility - annotator.tie_below) / annotator.noise)
    b = expit((-utility - annotator.tie_below) / annotator.noise)
    keep, flip = 1 - annotator.flip_rate, annotator.flip_rate
    return np.stack([keep * a + flip * b, keep * b + flip * a, 1 - a - b], axis=1)


def cast_votes(annotator: Annotator, pairs: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The annotator's votes on `pairs` in the order given: columns choice, strength (1 to 3, null for a tie), careless.

    `pairs` has the columns response_a, response_b, score_a, score_b, shown_first.
    """
    n = len(pairs)
    perceived = utility(annotator, pairs) + rng.logistic(scale=annotator.noise, size=n)
    choice = np.where(np.abs(perceived) < annotator.tie_below, 2, np.where(perceived > 0, 0, 1))
    flipped = (rng.random(n) < annotator.flip_rate) & (choice < 2)
    choice = np.where(flipped, 1 - choice, choice)
    strength = 1 + np.digitize(np.abs(perceived), [CLEAR, OVERWHELMING])

    position = np.arange(n)
    careless = (annotator.careless[0] <= position) & (position < annotator.careless[1])
    choice = np.where(careless, rng.integers(3, size=n), choice)
    strength = np.where(careless, rng.integers(1, 4, size=n), strength)
    votes = pl.DataFrame({"choice": np.array(CHOICES)[choice], "strength": strength, "careless": careless})
    return votes.with_columns(pl.when(pl.col("choice") != "tie").then("strength").alias("strength"))
