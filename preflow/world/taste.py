"""A world with polarised taste, as numbers: on quality people agree, on style they do not.

A response is 12 numbers. Its quality is a linear function of ten; its style is the eleventh where the twelfth is
positive, else 0. Most annotators like style, the others dislike it as much, so on two responses of different style they
differ whatever the quality. What an annotator says is the bin of their own utility difference, see `mean_variance`.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from preflow.divergence.mean_variance import CUTS
from preflow.divergence.schemas import BINS, OUTCOMES, VoteHistograms
from preflow.ingest.canonical import digest

INPUTS = 12
LIKES_STYLE = 0.75
NOISE = 0.5  # standard deviation of a judgement


@dataclass(frozen=True)
class TasteWorld:
    """Pairs of responses and who said what."""

    a: np.ndarray
    """Inputs of response a, [n, INPUTS]."""
    b: np.ndarray
    annotator: np.ndarray
    """Who judged, [n, votes a pair]."""
    bins: np.ndarray
    """What they said, [n, votes a pair]: the number of the bin in BINS."""
    likes_style: np.ndarray
    """The taste of each annotator, [annotators]."""

    @property
    def counts(self) -> np.ndarray:
        """Annotators who gave each outcome, [n, 7]; every strength is stated."""
        return np.stack([(self.bins == k).sum(1) for k in range(len(OUTCOMES))], axis=1)

    @property
    def diverging(self) -> np.ndarray:
        """Whether there are annotators on both sides, [n]."""
        return np.logical_and((self.bins < 2).any(1), (self.bins > 2).any(1))

    def histograms(self) -> pl.DataFrame:
        """`VoteHistograms`; a pair is named by its number."""
        return VoteHistograms.cast(
            pl.DataFrame(self.counts, schema=[*OUTCOMES])
            .with_columns(pair_id=pl.Series([digest(row) for row in range(len(self.bins))]))
            .sort("pair_id")
        )

    def votes(self) -> pl.LazyFrame:
        """The votes: pair_id, annotator, choice, strength."""
        n, k = self.bins.shape
        names = np.array([f"annotator {number:03}" for number in range(len(self.likes_style))])
        said = self.bins.ravel()
        strength = np.array([2, 1, 0, 1, 2])[said]
        return pl.LazyFrame(
            {
                "pair_id": np.repeat([digest(row) for row in range(n)], k),
                "annotator": names[self.annotator.ravel()],
                "choice": np.array(["b", "b", "tie", "a", "a"])[said],
                "strength": pl.Series(strength).replace(0, None),
            }
        )


def draw_taste(
    n: int, *, annotators: int, votes: int, style: float, careless: int = 0, world: int, seed: int
) -> TasteWorld:
    """Pairs of random responses, judged by `votes` different annotators each.

    Parameters
    ----------
    style
        How much style weighs; quality has a standard deviation of 1.
    careless
        How many of the annotators, the last, tick a bin at random.
    world
        Seed of the quality: worlds of one number agree on what is good.
    """
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(world).normal(size=INPUTS - 2)
    weights /= np.linalg.norm(weights)
    a, b = rng.normal(size=(2, n, INPUTS))
    likes = np.arange(annotators) < round(LIKES_STYLE * annotators)
    rng.shuffle(likes)
    judges = rng.random((n, annotators)).argsort(1)[:, :votes]
    taste = np.where(likes, 1.0, -1.0)[judges]
    quality = (a - b)[:, :-2] @ weights
    utility = quality[:, None] + style * taste * (_style(a) - _style(b))[:, None] + NOISE * rng.normal(size=(n, votes))
    bins = np.digitize(utility, CUTS)
    guessed = rng.integers(len(BINS), size=bins.shape)
    return TasteWorld(a, b, judges, np.where(judges >= annotators - careless, guessed, bins), likes)


def without_content(n: int, *, votes: int, share: float, world: int, seed: int) -> TasteWorld:
    """The control: quality is seen without noise or taste, but on a random `share` of pairs everyone ticks at random.

    What is good can be learned here; where people differ cannot.
    """
    drawn = draw_taste(n, annotators=votes, votes=votes, style=0.0, world=world, seed=seed)
    rng = np.random.default_rng([seed, 1])
    weights = np.random.default_rng(world).normal(size=INPUTS - 2)
    quality = (drawn.a - drawn.b)[:, :-2] @ (weights / np.linalg.norm(weights))
    agreed = np.repeat(np.digitize(quality, CUTS)[:, None], votes, axis=1)
    random = rng.integers(len(BINS), size=agreed.shape)
    bins = np.where(rng.random((n, 1)) < share, random, agreed)
    return TasteWorld(drawn.a, drawn.b, drawn.annotator, bins, drawn.likes_style)


def _style(responses: np.ndarray) -> np.ndarray:
    return responses[:, -2] * (responses[:, -1] > 0)
