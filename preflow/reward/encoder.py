"""Sentence embeddings of distinct responses: mean pooling over tokens, unit length (Reimers and Gurevych, 2019).

The same text has the same embedding, bit for bit, whatever else is embedded with it: every batch has one of a few
fixed shapes, and in a matrix product of fixed shape a row does not depend on the other rows. That makes a resumed run
equal to an undisturbed one. It holds for fp32 on one kind of machine with a given number of threads. bf16 autocast is
1.9 times as fast, but moves the embeddings by 1e-3 with the batch size, so it is not used
(docs/baseline_reward_model.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import polars as pl
import torch
from transformers import AutoModel, PreTrainedModel

from preflow.store import ArrayStore, content_key
from preflow.tokens import text_id, token_ids
from preflow.weights import model_folder, weights_sha256

LENGTH_STEP = 16  # tokens; texts are padded to the next multiple, so that few shapes occur


@dataclass(frozen=True)
class Encoder:
    """A sentence encoder and where it came from."""

    name: str
    """As it was asked for."""
    folder: Path
    sha256: str
    """SHA-256 of the weights file; of the concatenated digests, in order of name, where there are several."""
    model: PreTrainedModel


def load_encoder(name: str) -> Encoder:
    """Load an encoder in fp32 on the CPU: `package:NAME` (see PACKAGES), `hub:ORG/NAME@REVISION`, or a folder path.

    Raises
    ------
    ValueError
        The name is unknown, a Hub name has no revision, or the weights are not safetensors (pickles are never read).
    OSError
        The package, the folder or the Hub cannot be reached.
    """
    folder = model_folder(name)
    sha256 = weights_sha256(folder)
    model = AutoModel.from_pretrained(folder, use_safetensors=True, local_files_only=True, dtype=torch.float32)
    return Encoder(name, folder, sha256, model.eval())


def embed_texts(
    texts: Sequence[str], encoder: Encoder, *, batch_size: int, max_tokens: int, store: ArrayStore
) -> pl.DataFrame:
    """`ResponseEmbeddings` of the distinct texts, sorted by text id; what `store` already holds is not computed again.

    Parameters
    ----------
    batch_size
        Texts a forward pass; short batches are filled up, so that shapes repeat.
    max_tokens
        Where texts are cut, special tokens included.

    Raises
    ------
    ValueError
        A text is empty, or `max_tokens` exceeds what the model takes.
    """
    _check_texts(texts, encoder, max_tokens)
    distinct = {text_id(text): text for text in texts}
    # All that decides the bits of an embedding; batch_size is among them because the order of summation depends on it.
    device = encoder.model.device.type
    keys = {name: content_key(encoder.sha256, max_tokens, batch_size, device, name) for name in distinct}
    missing = sorted(name for name, key in keys.items() if key not in store.arrays)
    tokens = dict(
        zip(missing, token_ids([distinct[name] for name in missing], encoder.folder, max_tokens), strict=True)
    )
    name_of = {keys[name]: name for name in missing}
    store.fill(
        ([keys[name] for name in batch] for batch in _batches(tokens, batch_size)),
        lambda batch: _embed_batch([tokens[name_of[key]] for key in batch], encoder.model, batch_size),
        what="embeddings",
    )
    return _frame({name: store.arrays[keys[name]] for name in sorted(distinct)})


def _check_texts(texts: Sequence[str], encoder: Encoder, max_tokens: int) -> None:
    if any(not text for text in texts):
        raise ValueError("texts to embed hold an empty text; quarantine empty responses before this stage")
    limit = encoder.model.config.max_position_embeddings
    if max_tokens > limit:
        raise ValueError(f"max_tokens is {max_tokens}, but encoder {encoder.name!r} takes at most {limit}")


def _padded_length(tokens: Sequence[int]) -> int:
    return -(-len(tokens) // LENGTH_STEP) * LENGTH_STEP


def _batches(tokens: dict[str, list[int]], batch_size: int) -> list[list[str]]:
    """Names in batches of one padded length each, shortest first."""
    order = sorted(tokens, key=lambda name: (_padded_length(tokens[name]), name))
    buckets = [list(names) for _, names in groupby(order, key=lambda name: _padded_length(tokens[name]))]
    return [bucket[i : i + batch_size] for bucket in buckets for i in range(0, len(bucket), batch_size)]


@torch.inference_mode()
def _embed_batch(tokens: list[list[int]], model: PreTrainedModel, batch_size: int) -> np.ndarray:
    """Unit-length mean over unmasked positions, [len(tokens), d]; the batch is filled up to [batch_size, length]."""
    length = min(_padded_length(max(tokens, key=len)), model.config.max_position_embeddings)
    input_ids = torch.zeros(batch_size, length, dtype=torch.long)
    mask = torch.zeros(batch_size, length, dtype=torch.long)
    mask[:, 0] = 1  # a filler row attends to one token: a mean over none would be NaN
    for row, ids in enumerate(tokens):
        input_ids[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
    mask = mask.to(model.device)
    hidden = model(input_ids=input_ids.to(model.device), attention_mask=mask).last_hidden_state
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    pooled = (hidden * weights).sum(1) / weights.sum(1)
    return torch.nn.functional.normalize(pooled, dim=1)[: len(tokens)].cpu().numpy()


def _frame(vectors: dict[str, np.ndarray]) -> pl.DataFrame:
    embedding = pl.Series("embedding", [vector.tolist() for vector in vectors.values()], dtype=pl.List(pl.Float32))
    return pl.DataFrame({"text_id": pl.Series(list(vectors), dtype=pl.String), "embedding": embedding})
