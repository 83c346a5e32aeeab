"""Systems judged on prompts of which some are divisive: there style counts, and people differ in taste."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from preflow.ingest.canonical import digest

SYSTEMS = 8
DIVISIVE = 0.18  # share of the prompts


@dataclass(frozen=True)
class Arena:
    """Comparisons, the votes of people, a judge's verdicts, the true ranking and what a model can see."""

    comparisons: pl.LazyFrame
    votes: pl.LazyFrame
    verdicts: pl.DataFrame
    quality: dict[str, float]
    features: np.ndarray
    """Noisy signs of style, [n, 2]."""


def draw_arena(n: int, *, seed: int, style_bias: float) -> Arena:
    """`n` prompts with a pair of responses each. The judge names a winner by quality and, on divisive prompts, style.

    Style and quality of a system are independent. On divisive prompts half of four annotators like style, half dislike
    it; on the others nobody sees any. `style_bias` is how much style weighs for the judge there.
    """
    rng = np.random.default_rng(seed)
    quality, style = rng.normal(size=(2, SYSTEMS)) * np.array([[0.5], [1.0]])
    sides = np.array([rng.permutation(SYSTEMS)[:2] for _ in range(n)])
    divisive = rng.random(n) < DIVISIVE
    gap = (quality[sides] + 0.7 * rng.normal(size=(n, 2))) @ [1, -1]
    shown = (style[sides] + rng.normal(size=(n, 2))) @ [1, -1] * divisive
    taste = np.array([1.0, 1.0, -1.0, -1.0]) * 3
    heard = gap[:, None] + taste * shown[:, None] + 0.2 * rng.normal(size=(n, 4))
    judged = gap + style_bias * shown + 0.3 * rng.normal(size=n)
    ids = [digest(seed, row) for row in range(n)]
    said = _choices(heard, tie_below=0.25)
    texts = {"response_a": ["a"] * n, "response_b": ["bb"] * n, "gold": pl.Series([None] * n, dtype=pl.String)}
    names = {f"model_{side}": [f"system {k}" for k in sides[:, i]] for i, side in enumerate("ab")}
    votes = {"pair_id": np.repeat(ids, 4), "annotator": [f"p{k}" for k in range(4)] * n, "choice": said.ravel()}
    verdict = pl.Series(_choices(judged, tie_below=0.1))
    return Arena(
        pl.LazyFrame({"pair_id": ids, "prompt_group": ids} | texts | names),
        pl.LazyFrame(votes).with_columns(strength=pl.lit(None, dtype=pl.Int64)),
        pl.DataFrame({"pair_id": ids, "verdict": verdict, "swapped_verdict": pl.Series([None] * n, dtype=pl.String)}),
        {f"system {k}": float(value) for k, value in enumerate(quality)},
        np.stack([np.abs(shown) + 0.3 * rng.normal(size=n), divisive + 0.3 * rng.normal(size=n)], axis=1),
    )


def _choices(utility: np.ndarray, *, tie_below: float) -> np.ndarray:
    return np.where(np.abs(utility) < tie_below, "tie", np.where(utility > 0, "a", "b"))
