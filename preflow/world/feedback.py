"""Feedback of the world in Preflow's own format, and the truth about it in a table of its own.

The file of feedback holds what real feedback holds: prompts, responses, votes and a judge's scores. Rewards, levels and
planted flips are in `WorldTruth`, which is for checking what is inferred and is no input of any training.
"""

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import dataframely as dy
import numpy as np
import polars as pl

from preflow.ingest.canonical import pair_id_of
from preflow.schemas import CHOICES, pair_id_column
from preflow.world.annotators import Annotator, appeal
from preflow.world.panel import Vote, panel_votes
from preflow.world.tasks import FAMILIES, LEVELS, TOP_REWARD, gold_reward, read_task
from preflow.world.writers import Answer

FILE = "feedback.jsonl.gz"

# Tastes in gold points: each is worth a good part of a wrong answer, and none is worth a right one.
PANEL = (
    Annotator("ann_exact", noise=0.5, tie_below=0.3),
    Annotator("ann_wordy", noise=0.8, tie_below=0.3, longer=2.0),
    Annotator("ann_tidy", noise=0.8, tie_below=0.5, listed=3.0),
    Annotator("ann_polite", noise=0.8, tie_below=0.3, refusal=6.0),
    Annotator("ann_hasty", noise=1.5, tie_below=0.2, first=1.0, flip_rate=0.1),
    Annotator("ann_drifting", noise=0.6, tie_below=0.5, careless=(200, 320)),
)
JUDGE = Annotator("judge", noise=0.5, tie_below=0.0, longer=0.5)


class WorldTruth(dy.Schema):
    """What is known of a comparison because the world is simulated. No training reads it."""

    pair_id = pair_id_column()
    family = dy.Enum(list(FAMILIES), description="Kind of task.")
    level = dy.Int64(min=min(LEVELS), max=max(LEVELS), description="Difficulty of the task.")
    reward_a = dy.Float64(min=0, max=TOP_REWARD, description="Gold reward of response_a.")
    reward_b = dy.Float64(min=0, max=TOP_REWARD, description="Gold reward of response_b.")
    gold = dy.Enum(CHOICES, description="The response with the higher gold reward; tie where they are equal.")
    flipped = dy.Bool(description="Whether all votes were turned round on purpose.")


@dataclass(frozen=True)
class WorldFeedback:
    """Rows in Preflow's own format, and as many of `WorldTruth` or of another table of truth."""

    rows: list[dict[str, Any]]
    truth: pl.DataFrame

    def save_to_disk(self, folder: Path) -> None:
        """Write the rows as `feedback.jsonl.gz`, without the truth; the same feedback gives the same bytes."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)
        (folder / FILE).write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def pair_up(
    answers: Iterable[Answer], *, pairs_per_prompt: int, rng: np.random.Generator
) -> list[tuple[Answer, Answer]]:
    """Up to so many pairs of distinct answers to each prompt, in random orientation; empty answers are left out.

    Of equal answers the first counts. Prompts stand in the order of their first answer.
    """
    distinct: dict[str, dict[str, Answer]] = {}
    for answer in answers:
        if answer.text:
            distinct.setdefault(answer.prompt, {}).setdefault(answer.text, answer)
    pairs = []
    for found in distinct.values():
        possible = list(combinations(found.values(), 2))
        for i in sorted(rng.permutation(len(possible))[:pairs_per_prompt].tolist()):
            a, b = (possible[i][side] for side in rng.permutation(2))
            pairs.append((a, b))
    return pairs


def world_feedback(
    pairs: Sequence[tuple[Answer, Answer]],
    *,
    annotators: Sequence[Annotator],
    votes_per_pair: Sequence[int],
    flip_rate: float,
    judge: Annotator | None,
    seed: int,
) -> WorldFeedback:
    """Pairs with the votes of the annotators, the scores of a judge, and the truth.

    Parameters
    ----------
    flip_rate
        Share of the pairs with a better response whose votes are all turned round, exactly (rounded). Nothing else
        depends on it, and the flips at a lower rate are among those at a higher one.
    judge
        Whose appeal, with normal noise, is the score of a response: a whole number from 0 to 10. None: no scores.

    Raises
    ------
    ValueError
        `flip_rate` is outside [0, 1], there are too few annotators, or a prompt is no task.
    """
    if not 0 <= flip_rate <= 1:
        raise ValueError(f"flip_rate is {flip_rate}: a share from 0 to 1 is needed")
    for_votes, for_flips, for_scores = np.random.default_rng(seed).spawn(3)
    rewards = _rewards(pairs)
    votes = panel_votes(rewards, annotators, votes_per_pair, for_votes)
    gold = _better(rewards)
    decided = np.flatnonzero(gold != "tie")
    flipped = np.zeros(len(pairs), dtype=bool)
    flipped[for_flips.permutation(decided)[: round(flip_rate * len(decided))]] = True
    votes = [[mirrored(vote) for vote in cast] if flip else cast for cast, flip in zip(votes, flipped, strict=True)]
    scores = judge_scores(rewards, judge, for_scores) if judge else None
    rows = [_row(a, b, cast) for (a, b), cast in zip(pairs, votes, strict=True)]
    if scores is not None:
        rows = [row | {"score_a": a, "score_b": b} for row, (a, b) in zip(rows, scores, strict=True)]
    return WorldFeedback(rows, _truth(pairs, rewards, gold, flipped))


def mirrored(vote: Vote) -> Vote:
    """The vote for the other response; a tie stays one."""
    return vote | {"choice": {"a": "b", "b": "a", "tie": "tie"}[vote["choice"]]}


def judge_scores(rewards: pl.DataFrame, judge: Annotator, rng: np.random.Generator) -> list[tuple[float, float]]:
    """The judge's scores of both responses, whole numbers from 0 to 10; a response has one score in all its pairs."""
    found: dict[tuple[str, str], float] = {}
    for side in "ab":
        sides = rewards.select("prompt", f"response_{side}", f"score_{side}").iter_rows()
        found |= {(prompt, response): reward for prompt, response, reward in sides}
    noise = rng.normal(scale=judge.noise, size=len(found))
    scores = {
        key: float(np.clip(np.round(appeal(judge, key[1], reward) + error), 0, TOP_REWARD))
        for (key, reward), error in zip(sorted(found.items()), noise.tolist(), strict=True)
    }
    both = rewards.select("prompt", "response_a", "response_b").iter_rows()
    return [(scores[prompt, a], scores[prompt, b]) for prompt, a, b in both]


def _rewards(pairs: Sequence[tuple[Answer, Answer]]) -> pl.DataFrame:
    """Columns prompt, response_a, response_b, score_a, score_b, the scores being gold rewards."""
    rows = [(a.prompt, a.text, b.text, *(gold_reward(x.prompt, x.text) for x in (a, b))) for a, b in pairs]
    return pl.DataFrame(rows, schema=["prompt", "response_a", "response_b", "score_a", "score_b"], orient="row")


def _better(rewards: pl.DataFrame) -> np.ndarray:
    a, b = rewards["score_a"].to_numpy(), rewards["score_b"].to_numpy()
    return np.where(a > b, "a", np.where(b > a, "b", "tie"))


def _messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _row(a: Answer, b: Answer, votes: list[Vote]) -> dict[str, Any]:
    texts = {"prompt": _messages(a.prompt), "response_a": a.text, "response_b": b.text}
    return texts | {"model_a": a.writer, "model_b": b.writer, "votes": votes}


def _truth(
    pairs: Sequence[tuple[Answer, Answer]], rewards: pl.DataFrame, gold: np.ndarray, flipped: np.ndarray
) -> pl.DataFrame:
    tasks = [read_task(a.prompt) for a, _ in pairs]
    rows = pl.DataFrame(
        {
            "pair_id": [pair_id_of(_messages(a.prompt), a.text, b.text) for a, b in pairs],
            "family": [task.family for task in tasks],
            "level": [task.level for task in tasks],
            "reward_a": rewards["score_a"],
            "reward_b": rewards["score_b"],
            "gold": gold,
            "flipped": flipped,
        }
    )
    return WorldTruth.validate(rows, cast=True)
