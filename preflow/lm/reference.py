"""Log-probabilities under a frozen model, computed once per sequence whatever the dataset, beta, seed or loss.

An entry's key is made of the token ids, the length of the prompt, the weights and the dtype of the computation. It
holds the value of every token, so sums and means need no second pass.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from preflow.lm.chat import Encoded
from preflow.lm.logprobs import plan_batches, score_batch
from preflow.store import ArrayStore, content_key


class ReferenceLogprobs(NamedTuple):
    """Reference log-probabilities and what they cost."""

    tokens: list[np.ndarray]
    """log pi_ref of every response token, float32 [response_length] each, in the order of the request."""
    computed: int
    """Sequences that went through the model; all others were in the store."""


def reference_logprobs(
    model: PreTrainedModel,
    weights: str,
    encoded: Sequence[Encoded],
    store: ArrayStore,
    *,
    max_batch_tokens: int,
) -> ReferenceLogprobs:
    """Look up the log-probabilities of responses, after computing and storing those that are missing.

    Batches are planned over the whole request, so a rerun after a kill computes the rest in the same batches: the bytes
    are those of an undisturbed run. Under `torch.autocast` the values and their keys are those of its dtype.

    Parameters
    ----------
    weights
        A name that only these weights have: `weights_key` of a model in memory, `weights_sha256` of a saved one.

    Raises
    ------
    ValueError
        A prompt is empty, or the model gave NaN.
    """
    keys = [_key(weights, _dtype(model), row) for row in encoded]
    distinct = {key: row for key, row in zip(keys, encoded, strict=True) if row.response_length}
    requested = list(distinct)
    plan = plan_batches(list(distinct.values()), max_batch_tokens=max_batch_tokens, vocabulary=model.config.vocab_size)
    computed = store.fill(
        ([requested[i] for i in batch] for batch in plan),
        lambda batch: score_batch(model, [distinct[key] for key in batch]),
        what="reference log-probs",
    )
    empty = np.empty(0, np.float32)
    return ReferenceLogprobs([store.arrays[key] if key in distinct else empty for key in keys], computed)


def weights_key(model: torch.nn.Module) -> str:
    """SHA-256 of names, dtypes, shapes and values of a model in memory; for a saved one use `weights_sha256`."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _key(weights: str, dtype: str, row: Encoded) -> str:
    return content_key("response log-probs", weights, dtype, row.prompt_length, *row.ids)


def _dtype(model: PreTrainedModel) -> str:
    device = model.device.type
    return str(torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else model.dtype)
