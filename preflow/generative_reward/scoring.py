"""What a generative reward model says of pairs, in both orders; the average over the orders is the preference.

Wang et al. 2025: r(a) = 1/2 [p(first | a, b) + p(second | b, a)], the softmax being over the two verdicts of one order.
A softmax over the orders, which is an easy slip, gives 1/2 for a judge that is perfectly consistent.
"""

import numpy as np
import polars as pl
import torch
from scipy.special import expit

from preflow.generative_reward.forward import presented_logits
from preflow.generative_reward.judge import presentations, verdict_tokens
from preflow.generative_reward.model import GenerativeRewardModel
from preflow.lm.chat import Encoded
from preflow.lm.logprobs import pad, plan_batches


def verdict_probabilities(
    reward: GenerativeRewardModel, rows: pl.DataFrame, *, max_prompt_tokens: int, max_batch_tokens: int
) -> np.ndarray:
    """P(response_a better), float64 [n, 2]: with it shown first, and second. NaN where a row cannot be read.

    Parameters
    ----------
    rows
        Columns prompt, response_a, response_b; `presentations` says which cannot be read, and why.
    max_prompt_tokens
        Of all that the judge reads.
    max_batch_tokens
        Tokens of a batch with padding; it changes no value but by rounding, which in bfloat16 is some hundredths:
        logits of 16 and more lie 1/8 apart there. Score in float32 where small differences matter.
    """
    limits = {"max_prompt_tokens": max_prompt_tokens, "max_batch_tokens": max_batch_tokens}
    return order_probabilities(response_logits(reward, rows, **limits))


def response_logits(
    reward: GenerativeRewardModel, rows: pl.DataFrame, *, max_prompt_tokens: int, max_batch_tokens: int
) -> np.ndarray:
    """Logits of the verdicts for response_a and for response_b, float64 [n, 2 orders, 2 responses]; NaN if unread."""
    found = presentations(reward.tokenizer, reward.judge, rows, max_prompt_tokens=max_prompt_tokens)
    result = np.full((len(rows), 2, 2), np.nan)
    shown = [order for orders in found.rows.values() for order in orders]
    if shown:
        logits = presented_verdicts(reward, shown, max_batch_tokens=max_batch_tokens).reshape(-1, 2, 2)
        logits[:, 1] = logits[:, 1, ::-1]  # shown second, response_a is named by the second verdict
        result[list(found.rows)] = logits
    return result


@torch.no_grad()
def presented_verdicts(reward: GenerativeRewardModel, shown: list[Encoded], *, max_batch_tokens: int) -> np.ndarray:
    """Logits of the first and of the second verdict for each presentation, float64 [n, 2], in the order of `shown`."""
    model, tokens = reward.model, list(verdict_tokens(reward.tokenizer, reward.judge))
    result = np.empty((len(shown), 2))
    training = model.training
    model.eval()
    for rows in plan_batches(shown, max_batch_tokens=max_batch_tokens, vocabulary=model.config.vocab_size):
        input_ids, predicts = (tensor.to(model.device) for tensor in pad([shown[row] for row in rows]))
        result[rows] = presented_logits(model, input_ids, predicts)[:, tokens].cpu().numpy()
    model.train(training)
    return result


def order_probabilities(logits: np.ndarray) -> np.ndarray:
    """P(first response) of each order, [..., orders], from logits [..., orders, 2 responses]: softmax over the last."""
    return np.asarray(expit(logits[..., 0] - logits[..., 1]))


def preference_probability(probabilities: np.ndarray) -> np.ndarray:
    """P(response_a better), [n]: the mean over both orders of `verdict_probabilities`, [n, 2].

    Response a is preferred where it is above 1/2. With the responses exchanged it is one minus it.
    """
    return np.asarray(probabilities.mean(axis=1))


def consistent(probabilities: np.ndarray) -> np.ndarray:
    """Whether both orders, [n, 2], name the same response, bool [n]; a probability of exactly 1/2 names none."""
    return np.asarray((probabilities > 0.5).all(axis=1) | (probabilities < 0.5).all(axis=1))


def pointwise_rewards(
    reward: GenerativeRewardModel, rows: pl.DataFrame, *, max_prompt_tokens: int, max_batch_tokens: int
) -> np.ndarray:
    """P(response better than the reference), [n]: a reward of one response where each prompt has a fixed reference.

    `rows` has the columns prompt, response, reference. With the greedy response of the policy as reference it is what
    Wang et al. 2025 optimise, after ReMax (Li et al. 2024).
    """
    pairs = rows.select("prompt", response_a="response", response_b="reference")
    limits = {"max_prompt_tokens": max_prompt_tokens, "max_batch_tokens": max_batch_tokens}
    return preference_probability(verdict_probabilities(reward, pairs, **limits))
