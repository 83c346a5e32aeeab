"""The two stages of a generative reward model: pairs without labels as text, then verdicts on labelled pairs.

Wang et al. 2025. In the first stage which response comes first is drawn from the seed, so that a table whose chosen
response always comes first tells nothing. In the second every labelled pair is shown in both orders: labels are what is
scarce, a position then says nothing in exactly half of the examples each, and no seed decides what is learnt of it. It
costs twice the passes per epoch. A new task is one more second stage, from a model that has been through one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import chain

import numpy as np
import polars as pl

from preflow.generative_reward.forward import VERDICT, verdict_objective
from preflow.generative_reward.judge import UNKNOWN_WORDS, JudgePrompt, answered, presentations, verdict_tokens
from preflow.generative_reward.losses import Convention
from preflow.generative_reward.model import GenerativeRewardModel
from preflow.lm.chat import encode
from preflow.lm.trainer import Example
from preflow.objectives import sft
from preflow.policies.policy import Policy
from preflow.policies.recipe import Recipe
from preflow.policies.training import train_by


def fit_generative(
    policy: Policy,
    judge: JudgePrompt,
    *,
    unlabelled: pl.DataFrame | None,
    labelled: pl.DataFrame,
    pretraining: Recipe,
    tuning: Recipe,
    label_smoothing: float,
    convention: Convention,
    seed: int,
) -> GenerativeRewardModel:
    """`pretrain_on_pairs`, which is left out where there are no unlabelled pairs, then `train_verdicts`."""
    start = policy if unlabelled is None else pretrain_on_pairs(policy, judge, unlabelled, pretraining, seed=seed)
    return train_verdicts(
        start, judge, labelled, tuning, label_smoothing=label_smoothing, convention=convention, seed=seed
    )


def pretrain_on_pairs(policy: Policy, judge: JudgePrompt, rows: pl.DataFrame, recipe: Recipe, *, seed: int) -> Policy:
    """A copy of the policy that has learnt to write both responses of each row, one behind the other.

    The loss is -log pi(response, response | prompt) on the tokens of the responses, per token (`sft`).

    Parameters
    ----------
    rows
        Columns prompt, response_a, response_b; a label is not looked at.
    recipe
        Its own loss plays no part; `max_response_tokens` is for both responses together, and a longer pair is cut.

    Raises
    ------
    ValueError
        A row cannot be encoded within the limits of the recipe, or has a word that the tokenizer does not know.
    """
    model = train_by(
        recipe,
        deepcopy(policy.model),
        _pretraining_examples(policy, judge, rows, recipe, seed=seed),
        sft,
        order="shuffled",
        seed=seed,
    ).model
    return Policy(model.eval(), policy.tokenizer)


def train_verdicts(
    policy: Policy,
    judge: JudgePrompt,
    rows: pl.DataFrame,
    recipe: Recipe,
    *,
    label_smoothing: float,
    convention: Convention,
    seed: int,
) -> GenerativeRewardModel:
    """A copy of the policy, tuned to name the chosen response of each row in both orders; see `verdict_loss`.

    Parameters
    ----------
    rows
        Columns prompt, chosen, rejected, share (of the votes, for chosen; null for a hard label).
    recipe
        Its own loss and smoothing play no part; `max_prompt_tokens` is for all that the judge reads. Each row is two
        examples, so an epoch has twice as many as there are rows.

    Raises
    ------
    ValueError
        A row cannot be read within the limit, has a word that the tokenizer does not know or twice the same response.
    """
    model = train_by(
        recipe,
        deepcopy(policy.model),
        verdict_examples(policy, judge, rows, max_prompt_tokens=recipe.max_prompt_tokens),
        verdict_objective(label_smoothing=label_smoothing, convention=convention),
        forward=VERDICT,
        order="shuffled",
        seed=seed,
    ).model
    return GenerativeRewardModel(model.eval(), policy.tokenizer, judge)


def verdict_examples(
    policy: Policy, judge: JudgePrompt, rows: pl.DataFrame, *, max_prompt_tokens: int
) -> list[Example]:
    """Two examples of each row, chosen shown first and second: a presentation with the right and the wrong verdict.

    Raises
    ------
    ValueError
        See `train_verdicts`.
    """
    if same := int((rows["chosen"] == rows["rejected"]).sum()):
        raise ValueError(f"{same} of {len(rows)} rows have one response twice, so no verdict is right; leave them out")
    sides = rows.select("prompt", response_a="chosen", response_b="rejected")
    found = presentations(policy.tokenizer, judge, sides, max_prompt_tokens=max_prompt_tokens)
    _all_read(found.counts, len(rows))
    first, second = verdict_tokens(policy.tokenizer, judge)
    shares: Sequence[float | None] = rows["share"].to_list()
    both = (
        (
            Example(orders[0], answered(orders[0], second), share=share),
            Example(orders[1], answered(orders[1], first), share=share),
        )
        for orders, share in zip(found.rows.values(), shares, strict=True)
    )
    return list(chain.from_iterable(both))


def _pretraining_examples(
    policy: Policy, judge: JudgePrompt, rows: pl.DataFrame, recipe: Recipe, *, seed: int
) -> list[Example]:
    turned = np.random.default_rng(seed).random(len(rows)) < 0.5
    pairs = zip(rows["response_a"], rows["response_b"], turned, strict=True)
    found = encode(
        policy.tokenizer,
        rows["prompt"].to_list(),
        [judge.both(b, a) if turn else judge.both(a, b) for a, b, turn in pairs],
        max_prompt_tokens=recipe.max_prompt_tokens,
        max_response_tokens=recipe.max_response_tokens,
    )
    unknown = [UNKNOWN_WORDS for row in found.rows.values() if policy.tokenizer.unk_token_id in row.ids]
    _all_read(Counter([*found.refused.values(), *unknown]), len(rows))
    return [Example(encoded) for encoded in found.rows.values()]


def _all_read(reasons: Mapping[str, int], rows: int) -> None:
    if reasons:
        raise ValueError(
            f"of {rows} rows some cannot be read: {dict(reasons)}; leave them out, raise the limits of the recipe, or "
            "use a model and a wording whose words the tokenizer knows"
        )
