"""The discriminative reward: a Bradley-Terry head on a language model, trained and asked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from preflow.lm.chat import Encoded, encode
from preflow.lm.logprobs import plan_batches
from preflow.lm.reference import weights_key
from preflow.lm.reward_head import REWARD, RewardModel, gap_loss, response_rewards, reward_model
from preflow.lm.trainer import Example
from preflow.policies.policy import Policy
from preflow.policies.readable import encode_rows
from preflow.policies.recipe import Recipe
from preflow.policies.training import train_by
from preflow.store import ArrayStore, content_key


def fit_discriminative(policy: Policy, rows: pl.DataFrame, recipe: Recipe, *, seed: int) -> RewardModel:
    """A head on a copy of the policy, tuned with it on rows (prompt, chosen, rejected, share) that it can read.

    The loss is Bradley-Terry with the share of the votes as a soft label; the recipe's own loss plays no part.

    Raises
    ------
    ValueError
        A row cannot be encoded within the limits of the recipe.
    """
    encoded = encode_rows(rows, policy.tokenizer, recipe)
    if encoded.refused:
        raise ValueError(f"{len(encoded.refused)} of {len(rows)} rows cannot be encoded: {encoded.counts}")
    examples = [Example(*pair, share=share) for pair, share in zip(encoded.rows.values(), rows["share"], strict=True)]
    model = reward_model(policy.model, outputs=1, seed=seed, about={"name": "discriminative"})
    trained = train_by(recipe, model, examples, gap_loss, order="shuffled", seed=seed, forward=REWARD)
    return RewardModel(trained.model.eval(), policy.tokenizer)


@dataclass(frozen=True)
class HeadScorer:
    """A reward model with the limits within which it reads, and a store of what it said."""

    reward: RewardModel
    recipe: Recipe
    store: ArrayStore

    def rewards(self, rows: pl.DataFrame) -> np.ndarray:
        """See `Scorer`; a prompt over the limit or a word that the tokenizer does not know cannot be read."""
        found = encode(
            self.reward.tokenizer,
            rows["prompt"].to_list(),
            rows["response"].to_list(),
            max_prompt_tokens=self.recipe.max_prompt_tokens,
            max_response_tokens=self.recipe.max_response_tokens,
        )
        unknown = self.reward.tokenizer.unk_token_id
        known = {row: encoded for row, encoded in found.rows.items() if unknown is None or unknown not in encoded.ids}
        result = np.full(len(rows), np.nan)
        result[list(known)] = self._stored(list(known.values()))
        return result

    def in_both_orders(self, rows: pl.DataFrame) -> None:  # noqa: ARG002
        """It sees one response at a time."""
        return

    def _stored(self, encoded: Sequence[Encoded]) -> np.ndarray:
        """The head's reward of each response, [n]; what the store lacks is computed batch by batch."""
        model, most = self.reward.model, self.recipe.max_batch_tokens
        weights = weights_key(model)
        keys = [content_key("head reward", weights, row.prompt_length, *row.ids) for row in encoded]
        distinct = dict(zip(keys, encoded, strict=True))
        requested = list(distinct)
        self.store.fill(
            (
                [requested[i] for i in batch]
                for batch in plan_batches(list(distinct.values()), max_batch_tokens=most, vocabulary=1)
            ),
            lambda batch: response_rewards(model, [distinct[key] for key in batch], max_batch_tokens=most),
            what="rewards",
        )
        return np.array([self.store.arrays[key][0] for key in keys], dtype=np.float64)
