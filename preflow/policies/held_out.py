"""Held-out losses of every pair, from reference runs that train on one half of the pairs and score the other.

Gao et al. 2025 (arXiv 2502.09650); what is done with the losses is in `preflow.treatments.difficulty`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from transformers import PreTrainedModel

from preflow.lm.order import steps_of
from preflow.policies.study import Study
from preflow.policies.training import examples_of, labels, log_ratios, run_key, train_on
from preflow.store import content_key
from preflow.treatments.difficulty import difficulty_scores, halves, seed_agreement
from preflow.treatments.schemas import DifficultyScores, HeldOutLosses
from preflow.treatments.selection import SUSPICIOUS


def held_out_losses(study: Study, rows: pl.DataFrame, *, seeds: Sequence[int], checkpoints: int) -> pl.DataFrame:
    """`HeldOutLosses` of all rows, distinct by pair_id: two runs a seed, evaluated at equally spaced checkpoints.

    The losses of finished runs are kept, so a stopped scoring goes on with the next run, and a rerun costs nothing.

    Raises
    ------
    ValueError
        A run has fewer steps than checkpoints, or there are fewer than two rows.
    """
    parts: list[pl.DataFrame] = []
    for seed in seeds if len(rows) else []:
        first, second = halves(rows["pair_id"].to_list(), seed=seed)
        for train_ids, held_ids in ((first, second), (second, first)):
            train_rows, held = (_of(rows, ids) for ids in (train_ids, held_ids))
            losses = _run(study, train_rows, held, seed, checkpoints)
            parts += [
                pl.DataFrame({"pair_id": held["pair_id"], "seed": seed, "checkpoint": number + 1, "loss": values})
                for number, values in enumerate(losses)
            ]
    if not parts:
        return HeldOutLosses.create_empty()
    return HeldOutLosses.cast(pl.concat(parts).sort("pair_id", "seed", "checkpoint"))


def ranked(
    study: Study, losses: pl.DataFrame, *, checkpoints: int, learned_margin: float
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """`DifficultyScores` and what the ranking is worth; an empty ranking where nothing was scored.

    See `preflow.treatments.difficulty.difficulty_scores` for what is raised.
    """
    if losses.is_empty():
        return DifficultyScores.create_empty(), {"pairs": 0}
    scored_by = content_key(study.name, checkpoints, *losses["seed"].unique().sort())
    scores = difficulty_scores(losses, scored_by=scored_by, learned_margin=learned_margin)
    seeds = losses["seed"].n_unique()
    return scores, {
        "pairs": len(scores),
        "seeds": seeds,
        "checkpoints": checkpoints,
        "scored_by": scored_by,
        "seed_agreement": seed_agreement(losses) if seeds > 1 else None,
        "flip_suspected": scores.filter(pl.col("flip_suspicion") > SUSPICIOUS).height,
    }


def _of(rows: pl.DataFrame, ids: Sequence[str]) -> pl.DataFrame:
    return rows.filter(pl.col("pair_id").is_in(ids)).sort("pair_id")


def _run(study: Study, rows: pl.DataFrame, held: pl.DataFrame, seed: int, checkpoints: int) -> np.ndarray:
    """DPO losses of the held-out rows at each checkpoint of a run on `rows`, float32 [checkpoints, held]."""
    key = content_key("held-out losses", run_key(study, rows, seed), checkpoints, *labels(held))
    if key not in study.losses.arrays:
        examples, recipe = examples_of(study, held), study.recipe
        losses: list[np.ndarray] = []

        def probe(step: int, model: PreTrainedModel) -> None:  # noqa: ARG001
            ratios = log_ratios(model, examples, max_batch_tokens=recipe.max_batch_tokens)
            losses.append(np.logaddexp(0, -recipe.beta * (ratios[:, 0] - ratios[:, 1])))

        at = _evaluation_steps(steps_of(recipe.epochs, len(rows), recipe.batch_size), checkpoints)
        train_on(study, rows, seed=seed, probe=probe, probe_steps=at)
        study.losses.add({key: np.concatenate(losses).astype(np.float32)})
    return study.losses.arrays[key].reshape(checkpoints, len(held))


def _evaluation_steps(steps: int, checkpoints: int) -> list[int]:
    if steps < checkpoints:
        raise ValueError(
            f"a run on half of the pairs has {steps} steps, fewer than {checkpoints} checkpoints; "
            "use more pairs or epochs, smaller batches or fewer checkpoints"
        )
    return [steps * number // checkpoints for number in range(1, checkpoints + 1)]
