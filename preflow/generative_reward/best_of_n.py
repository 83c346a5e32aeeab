"""Best of n by comparisons: a linear scan that keeps the champion, Wang et al. 2025.

A judge need not be transitive, so another order of the responses may find another best one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from preflow.generative_reward.model import GenerativeRewardModel
from preflow.generative_reward.scoring import preference_probability, verdict_probabilities
from preflow.lm.chat import Messages

Challenge = tuple[int, int, int]
"""Number of the prompt, of the challenger and of the champion among its responses."""


class Best(NamedTuple):
    """What the scan found."""

    chosen: list[int]
    """Number of the best response to each prompt."""
    comparisons: int
    """How many there were: responses less one, over all prompts; each is two passes of a judge that sees an order."""


def best_of_n(sizes: Sequence[int], prefers: Callable[[Sequence[Challenge]], np.ndarray]) -> Best:
    """The best of `sizes[i]` responses to each prompt i; all prompts advance together, so that a judge gets batches.

    Parameters
    ----------
    prefers
        P(challenger better than champion) of each challenge, [n]; the champion stays unless it is above 1/2.

    Raises
    ------
    ValueError
        A prompt has no response, or a challenge has no probability.
    """
    if 0 in sizes:
        raise ValueError(f"prompt number {list(sizes).index(0)} has no response to choose from")
    chosen, comparisons = [0] * len(sizes), 0
    for challenger in range(1, max(sizes, default=0)):
        challenges = [(i, challenger, chosen[i]) for i, size in enumerate(sizes) if challenger < size]
        found = prefers(challenges)
        _all_judged(challenges, np.isnan(found))
        comparisons += len(challenges)
        for (i, _, _), probability in zip(challenges, found, strict=True):
            chosen[i] = challenger if probability > 0.5 else chosen[i]
    return Best(chosen, comparisons)


def best_responses(
    reward: GenerativeRewardModel,
    prompts: Sequence[Messages],
    responses: Sequence[Sequence[str]],
    *,
    max_prompt_tokens: int,
    max_batch_tokens: int,
) -> Best:
    """`best_of_n` by a generative reward model that sees each challenge in both orders."""

    def prefers(challenges: Sequence[Challenge]) -> np.ndarray:
        said = [
            {"prompt": prompts[i], "response_a": responses[i][new], "response_b": responses[i][old]}
            for i, new, old in challenges
        ]
        limits = {"max_prompt_tokens": max_prompt_tokens, "max_batch_tokens": max_batch_tokens}
        return preference_probability(verdict_probabilities(reward, pl.DataFrame(said), **limits))

    return best_of_n([len(each) for each in responses], prefers)


def _all_judged(challenges: Sequence[Challenge], lacking: np.ndarray) -> None:
    if lacking.any():
        raise ValueError(
            f"{lacking.sum()} comparisons cannot be read, the first {challenges[int(lacking.argmax())]} (prompt, "
            "challenger, champion): see `presentations` for the reasons"
        )
