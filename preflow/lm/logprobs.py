"""Log-probabilities of responses: the one place where they are computed, with and without gradients.

Only positions that predict a response token go through the output head, whose vocabulary is most of the memory and, in
a small model, most of the work. Batches are padded on the right and carry no attention mask: in a causal model no real
token attends to what follows it. So a value does not depend on its batch beyond the rounding of sums.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from accelerate.utils import extract_model_from_parallel
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from preflow.lm.chat import Encoded

MAX_LOGITS = 2**28  # response tokens x vocabulary of a batch; as float32 that is 1 GiB


def response_logprobs(model: PreTrainedModel, encoded: Sequence[Encoded], *, max_batch_tokens: int) -> list[np.ndarray]:
    """The log pi of every response token, float32 [response_length] each, in the order of `encoded`; without gradients.

    Parameters
    ----------
    max_batch_tokens
        Tokens of a batch with padding; batches hold responses of similar length. A longer sequence goes alone.

    Raises
    ------
    ValueError
        A prompt is empty: nothing predicts its first response token.
    """
    result = [np.empty(0, np.float32)] * len(encoded)
    for rows in plan_batches(encoded, max_batch_tokens=max_batch_tokens, vocabulary=model.config.vocab_size):
        for row, values in zip(rows, score_batch(model, [encoded[row] for row in rows]), strict=True):
            result[row] = values
    return result


def plan_batches(encoded: Sequence[Encoded], *, max_batch_tokens: int, vocabulary: int) -> list[list[int]]:
    """Rows of each batch: longest first, so that the largest batch, which may not fit, is the first to be tried."""
    batches: list[list[int]] = []
    width = logits = 0
    for row in sorted(range(len(encoded)), key=lambda row: (-len(encoded[row].ids), row)):
        logits += encoded[row].response_length * vocabulary
        if not batches or (len(batches[-1]) + 1) * width > max_batch_tokens or logits > MAX_LOGITS:
            batches.append([])
            width, logits = len(encoded[row].ids), encoded[row].response_length * vocabulary
        batches[-1].append(row)
    return batches


@torch.no_grad()
def score_batch(model: PreTrainedModel, encoded: Sequence[Encoded]) -> list[np.ndarray]:
    """As `response_logprobs`, in one forward pass in evaluation mode."""
    training = model.training
    model.eval()
    input_ids, predicts = (tensor.to(model.device) for tensor in pad(encoded))
    values = token_logprobs(model, input_ids, predicts).float().cpu().numpy()
    model.train(training)
    return np.split(values, np.cumsum([row.response_length for row in encoded])[:-1])


def pad(encoded: Sequence[Encoded]) -> tuple[Tensor, Tensor]:
    """Token ids, padded on the right, and where the next token is one of the response, [B, T] int64 and bool.

    Raises
    ------
    ValueError
        A prompt is empty.
    """
    if not all(row.prompt_length for row in encoded):
        raise ValueError("a prompt has no token, so nothing predicts the first response token; give it a BOS token")
    input_ids = torch.zeros(len(encoded), max(len(row.ids) for row in encoded), dtype=torch.int64)
    predicts = torch.zeros_like(input_ids, dtype=torch.bool)
    for i, row in enumerate(encoded):
        input_ids[i, : len(row.ids)] = torch.tensor(row.ids)
        predicts[i, row.prompt_length - 1 : len(row.ids) - 1] = True
    return input_ids, predicts


def token_logprobs(model: torch.nn.Module, input_ids: Tensor, predicts: Tensor) -> Tensor:
    """The log pi(next token) where `predicts`, float32 [N], row by row; with gradients where they are enabled.

    The whole model is called, so a wrapper (DDP, FSDP, peft) sees the forward pass it expects.
    """
    targets = input_ids.roll(-1, dims=1)[predicts]
    with head_only_where(extract_model_from_parallel(model), predicts):
        logits = model(input_ids=input_ids, use_cache=False).logits
    return -cross_entropy(logits.float(), targets, reduction="none")


def sequence_logprobs(model: torch.nn.Module, input_ids: Tensor, predicts: Tensor) -> Tensor:
    """Sum of `token_logprobs` of each sequence, [B]."""
    values = token_logprobs(model, input_ids, predicts)
    return values.new_zeros(predicts.shape).masked_scatter(predicts, values).sum(1)


@contextmanager
def head_only_where(model: PreTrainedModel, mask: Tensor) -> Iterator[None]:
    """Inside, the output head sees hidden states [B, T, H] at `mask` alone, [N, H]; so logits are [N, V]."""
    handle = model.get_output_embeddings().register_forward_pre_hook(lambda _, args: (args[0][mask],))
    try:
        yield
    finally:
        handle.remove()
