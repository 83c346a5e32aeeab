"""A world whose divergence has planted causes: texts that differ in a known way, annotators who differ over that.

Half of those who mind a difference mind it one way, half the other. Pairs in between test what must not be explained:
`noise` pairs differ in nothing that counts, `inert` ones carry the mark of a cause that none of those who judged them
minds, and `clear` ones are agreed on but for the careless.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dataframely as dy
import numpy as np
import polars as pl

from preflow.ingest.canonical import pair_id_of
from preflow.reasons.schemas import CLASS_OF
from preflow.schemas import pair_id_column
from preflow.world.annotators import Annotator
from preflow.world.caused_texts import MARK, Rng, drafted, rendered
from preflow.world.feedback import WorldFeedback
from preflow.world.panel import Vote, timed_votes

KINDS = ("caused", "noise", "inert", "clear")
COMBINED = ("underspecification", "verbosity", "format", "aesthetic_taste")
"""Causes that a pair may have together."""
LEVEL = 5.0  # gold points of an average response


class PlantedCauses(dy.Schema):
    """What is known of a comparison because the world is simulated, for training the tagger and checking it."""

    pair_id = pair_id_column()
    kind = dy.Enum(KINDS, description="Why the votes are as they are.")
    causes = dy.List(dy.Enum(list(CLASS_OF)), description="Causes of a divergence of this pair, where it diverges.")


@dataclass(frozen=True, kw_only=True)
class CauseRecipe:
    """What decides a world of planted causes, beside its seed."""

    n_pairs: int
    shares: Mapping[str, float]
    """Probability of each of KINDS."""
    second: float
    """Probability that one of COMBINED brings another with it."""
    votes_per_pair: int
    minded: int
    """Annotators who mind the causes, half of them each way; an even number."""
    indifferent: int
    """Annotators who mind nothing; they alone judge inert pairs."""
    careless: Sequence[tuple[int, int]]
    """Spell of careless votes (from, up to) of each of some more annotators who mind nothing."""
    taste: float
    """Gold points that the mark of a cause is worth to those who mind it."""
    gap: float
    """Gold points between the responses of a clear pair."""


@dataclass(frozen=True)
class _Pair:
    kind: str
    marked: dict[str, int]
    """Each planted cause and the side that carries its mark."""
    prompt: str
    texts: tuple[str, str]
    scores: tuple[float, float]


@dataclass(frozen=True, eq=False)
class _Judge:
    annotator: Annotator
    gains: Mapping[str, float]
    """What a response gains by the mark of a cause, in gold points."""


def caused_feedback(recipe: CauseRecipe, *, seed: int) -> WorldFeedback:
    """Pairs with votes in Preflow's own format; `truth` is `PlantedCauses`.

    A pair that would not diverge without the votes of careless spells has the cause `careless_rating` and no other.

    Raises
    ------
    ValueError
        The shares do not sum to 1 over KINDS, `minded` is odd, or an inert pair has too few annotators.
    """
    if set(recipe.shares) != set(KINDS) or not np.isclose(sum(recipe.shares.values()), 1):
        raise ValueError(f"shares {dict(recipe.shares)} must name {', '.join(KINDS)} and sum to 1")
    if recipe.minded % 2 or min(recipe.minded, recipe.indifferent) < recipe.votes_per_pair:
        raise ValueError(
            f"{recipe.minded} minded (an even number) and {recipe.indifferent} indifferent annotators: each group has "
            f"to give {recipe.votes_per_pair} votes a pair alone"
        )
    for_texts, for_panel, for_votes = np.random.default_rng(seed).spawn(3)
    pairs = _pairs(recipe, for_texts)
    votes = _votes(pairs, _panel(recipe, for_panel), recipe, for_votes)
    rows = [_row(pair, [vote for vote, _ in cast]) for pair, cast in zip(pairs, votes, strict=True)]
    truth = {
        "pair_id": [pair_id_of(row["prompt"], row["response_a"], row["response_b"]) for row in rows],
        "kind": [pair.kind for pair in pairs],
        "causes": [_causes(pair, cast) for pair, cast in zip(pairs, votes, strict=True)],
    }
    return WorldFeedback(rows, PlantedCauses.validate(pl.DataFrame(truth), cast=True))


def _pairs(recipe: CauseRecipe, rng: Rng) -> list[_Pair]:
    """Distinct pairs, kinds and causes drawn at random."""
    found: dict[tuple[str, ...], _Pair] = {}
    while len(found) < recipe.n_pairs:
        kind = str(rng.choice(KINDS, p=[recipe.shares[name] for name in KINDS]))
        marked = {label: int(rng.integers(2)) for label in _drawn_causes(kind, recipe.second, rng)}
        draft = drafted(rng)
        for label, mark in MARK.items():
            if label in marked:
                mark(draft, marked[label], rng)
        a, b = rendered(draft)
        lead = rng.normal(scale=0.25) + (kind == "clear") * rng.choice([-1, 1]) * recipe.gap / 2
        pair = _Pair(kind, marked, draft.prompt, (a, b), (LEVEL + lead, LEVEL - lead))
        if a != b:
            found.setdefault((pair.prompt, *sorted(pair.texts)), pair)
    return list(found.values())


def _drawn_causes(kind: str, second: float, rng: Rng) -> list[str]:
    if kind not in ("caused", "inert"):
        return []
    first = str(rng.choice(list(MARK)))
    if kind == "caused" and first in COMBINED and rng.random() < second:
        return [first, str(rng.choice([label for label in COMBINED if label != first]))]
    return [first]


def _panel(recipe: CauseRecipe, rng: Rng) -> dict[str, list[_Judge]]:
    """Who judges pairs of which kind. Sides over each cause are drawn apart, so that no two causes go together."""
    half = recipe.minded // 2
    signs = {label: rng.permutation([1.0] * half + [-1.0] * half) for label in MARK}
    minded = [
        _judge(i, {label: recipe.taste * float(sign[i]) for label, sign in signs.items()}) for i in range(recipe.minded)
    ]
    indifferent = [_Judge(Annotator(f"indifferent_{i:02}", 0.5, 0.3), {}) for i in range(recipe.indifferent)]
    careless = [
        _Judge(Annotator(f"careless_{i:02}", 0.5, 0.3, careless=spell), {}) for i, spell in enumerate(recipe.careless)
    ]
    everyone = [*minded, *indifferent, *careless]
    return {"caused": [*minded, *careless], "inert": indifferent, "noise": everyone, "clear": everyone}


def _judge(number: int, gains: dict[str, float]) -> _Judge:
    """An annotator whose tastes for length, lists and refusals are those of `Annotator`, which see every response."""
    longer, listed, refusal = (gains.pop(label) for label in ("verbosity", "format", "comply_refuse"))
    annotator = Annotator(f"minded_{number:02}", 0.5, 0.3, longer=longer, listed=listed, refusal=2 * refusal)
    return _Judge(annotator, gains)


def _votes(
    pairs: Sequence[_Pair], panel: Mapping[str, Sequence[_Judge]], recipe: CauseRecipe, rng: Rng
) -> list[list[tuple[Vote, bool]]]:
    """The votes on each pair, each with whether it fell into a careless spell."""
    judged: dict[_Judge, list[int]] = {judge: [] for judge in panel["clear"]}
    for i in rng.permutation(len(pairs)).tolist():
        judges = panel[pairs[i].kind]
        for j in sorted(rng.permutation(len(judges))[: recipe.votes_per_pair].tolist()):
            judged[judges[j]].append(i)
    votes: list[list[tuple[Vote, bool]]] = [[] for _ in pairs]
    for judge, mine in judged.items():
        seen = pl.DataFrame([_seen(pairs[i], judge, recipe.taste, rng) for i in mine])
        start, stop = judge.annotator.careless
        for n, (i, vote) in enumerate(zip(mine, timed_votes(judge.annotator, seen, rng), strict=True)):
            votes[i].append((vote, start <= n < stop))
    return votes


def _seen(pair: _Pair, judge: _Judge, taste: float, rng: Rng) -> dict[str, object]:
    """The pair with the scores it has for a judge; an underspecified prompt is read anew by each of them."""
    scores = list(pair.scores)
    for label, side in pair.marked.items():
        gain = judge.gains.get(label, 0.0)
        scores[side] += taste * rng.choice([-1, 1]) if gain and label == "underspecification" else gain
    return {"response_a": pair.texts[0], "response_b": pair.texts[1], "score_a": scores[0], "score_b": scores[1]}


def _row(pair: _Pair, votes: list[Vote]) -> dict[str, Any]:
    prompt = [{"role": "user", "content": pair.prompt}]
    return {"prompt": prompt, "response_a": pair.texts[0], "response_b": pair.texts[1], "votes": votes}


def _causes(pair: _Pair, cast: Sequence[tuple[Vote, bool]]) -> list[str]:
    """The planted causes of a caused pair; only carelessness where careful votes alone would not diverge."""
    every, careful = ({vote["choice"] for vote, careless in cast if not (skip and careless)} for skip in (False, True))
    both = {"a", "b"}
    if both <= every and not both <= careful:
        return ["careless_rating"]
    return sorted(pair.marked) if pair.kind == "caused" else []
