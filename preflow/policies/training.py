"""Trains a policy on the rows of a derived dataset."""

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from transformers import PreTrainedModel

from preflow.lm.logprobs import response_logprobs
from preflow.lm.order import Order, steps_of
from preflow.lm.trainer import Example, Objective, Probe, Trained, train, with_reference
from preflow.policies.readable import encode_rows
from preflow.policies.recipe import Recipe
from preflow.policies.study import Study
from preflow.store import content_key

LOG_STEPS = 10
CHECKPOINT_STEPS = 100  # a multiple of LOG_STEPS; the last step is kept as well


def examples_of(study: Study, rows: pl.DataFrame) -> list[Example]:
    """The rows (columns prompt, chosen, rejected, share) with their log-probabilities under the start policy.

    Raises
    ------
    ValueError
        A row cannot be encoded within the limits of the recipe.
    """
    encoded = encode_rows(rows, study.policy.tokenizer, study.recipe)
    if encoded.refused:
        raise ValueError(
            f"{len(encoded.refused)} of {len(rows)} rows cannot be encoded: {encoded.counts}; a goal lengthens its "
            f"prompt, so allow more than {study.recipe.max_prompt_tokens} prompt tokens"
        )
    pairs = list(encoded.rows.values())
    examples = with_reference(
        pairs, study.policy.model, study.weights, study.logprobs, max_batch_tokens=study.recipe.max_batch_tokens
    )
    return [replace(example, share=share) for example, share in zip(examples, rows["share"], strict=True)]


def train_on(
    study: Study,
    rows: pl.DataFrame,
    *,
    seed: int,
    resumable: bool = False,
    probe: Probe | None = None,
    probe_steps: Collection[int] = (),
) -> Trained:
    """A copy of the start policy, trained on `rows` (see `preflow.treatments.schemas.training_rows`).

    Rows with a place in an order are trained on in that order, else they are shuffled. A `resumable` run that was
    stopped goes on from its last checkpoint. See `preflow.lm.trainer.train` for probes and for what is raised.
    """
    return train_by(
        study.recipe,
        deepcopy(study.policy.model),
        examples_of(study, rows),
        study.recipe.objective,
        order=_order(rows),
        seed=seed,
        folder=study.checkpoints / run_key(study, rows, seed) if resumable else None,
        probe=probe,
        probe_steps=probe_steps,
    )


def train_by(
    recipe: Recipe,
    model: PreTrainedModel,
    examples: Sequence[Example],
    objective: Objective,
    *,
    order: Order,
    seed: int,
    **how: Any,
) -> Trained:
    """Train `model` in place as the recipe says, its loss left aside; `how` is passed on to `train`."""
    steps = steps_of(recipe.epochs, len(examples), recipe.batch_size)
    return train(
        model,
        examples,
        objective,
        steps=steps,
        batch_size=recipe.batch_size,
        micro_batch_size=recipe.micro_batch_size,
        learning_rate=recipe.learning_rate,
        schedule=recipe.schedule,
        warmup_share=recipe.warmup_share,
        order=order,
        seed=seed,
        bf16=recipe.bf16,
        log_steps=LOG_STEPS if steps >= LOG_STEPS else 1,
        lora_rank=recipe.lora_rank,
        checkpoint_steps=CHECKPOINT_STEPS,
        **how,
    )


def run_key(study: Study, rows: pl.DataFrame, seed: int) -> str:
    """A name for all that decides a training."""
    return content_key("training", study.name, seed, _order(rows), *labels(rows))


def labels(rows: pl.DataFrame) -> list[str]:
    """What each row says: a pair_id names two responses, but not which is chosen, nor by what share of the votes."""
    said = rows.select("pair_id", "chosen_is", "share").iter_rows()
    return [f"{pair_id} {chosen_is}" + ("" if share is None else f" {share!r}") for pair_id, chosen_is, share in said]


def log_ratios(model: PreTrainedModel, examples: list[Example], *, max_batch_tokens: int) -> np.ndarray:
    """The log pi / pi_ref of chosen and of rejected, float64 [n, 2]; the references come with the examples."""
    sides = [side for example in examples for side in (example.chosen, example.rejected) if side]
    tokens = response_logprobs(model, sides, max_batch_tokens=max_batch_tokens)
    sums = np.array([values.sum(dtype=np.float64) for values in tokens]).reshape(-1, 2)
    return sums - np.array([example.reference for example in examples]).reshape(-1, 2)


def _order(rows: pl.DataFrame) -> Order:
    return "given" if rows["order"].is_not_null().all() else "shuffled"
