"""The baseline reward as a scorer: a linear head on sentence embeddings, which reads responses alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
import torch

from preflow.reward.baseline import BradleyTerryReward, reward_inputs
from preflow.reward.encoder import Encoder, embed_texts, load_encoder
from preflow.store import ArrayStore


@dataclass(frozen=True)
class EmbeddingScorer:
    """See `preflow.reward.encoder.embed_texts` for the settings."""

    model: BradleyTerryReward
    encoder: Encoder
    store: ArrayStore
    batch_size: int
    max_tokens: int

    @classmethod
    def load(cls, folder: Path, *, store: Path, batch_size: int, max_tokens: int) -> Self:
        """The model saved in `folder`, with the encoder that it was fitted on."""
        model = BradleyTerryReward.from_pretrained(folder)
        return cls(model, load_encoder(model.encoder), ArrayStore(store), batch_size, max_tokens)

    def rewards(self, rows: pl.DataFrame) -> np.ndarray:
        """See `Scorer`; an empty response is embedded as a blank."""
        texts = rows["response"].replace("", " ")
        distinct = texts.unique().sort().to_list()
        if not distinct:
            return np.empty(0)
        embeddings = embed_texts(
            distinct, self.encoder, batch_size=self.batch_size, max_tokens=self.max_tokens, store=self.store
        )
        inputs = reward_inputs(distinct, embeddings)
        of = dict(zip(distinct, self.model(torch.from_numpy(inputs)).numpy(), strict=True))
        return np.array([of[text] for text in texts], dtype=np.float64)

    def in_both_orders(self, rows: pl.DataFrame) -> None:  # noqa: ARG002
        """It sees one response at a time."""
        return
