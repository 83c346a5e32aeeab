"""The generative reward as a scorer: a judge that compares a response with a reference, in both orders."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import logit

from preflow.generative_reward.judge import presentations, verdict_tokens
from preflow.generative_reward.model import GenerativeRewardModel
from preflow.generative_reward.scoring import order_probabilities, preference_probability, presented_verdicts
from preflow.lm.chat import Encoded
from preflow.lm.logprobs import plan_batches
from preflow.lm.reference import weights_key
from preflow.store import ArrayStore, content_key

SUREST = 1e-6  # no judge is surer than that; beyond it the odds would be infinite


@dataclass(frozen=True)
class JudgeScorer:
    """A judge with the limits within which it reads, and a store of what it said."""

    reward: GenerativeRewardModel
    store: ArrayStore
    max_prompt_tokens: int
    """Of all that the judge reads."""
    max_batch_tokens: int

    def rewards(self, rows: pl.DataFrame) -> np.ndarray:
        """See `Scorer`: log odds that `response` is better than `reference`; NaN where there is no reference."""
        probability = preference_probability(self.in_both_orders(rows)).clip(SUREST, 1 - SUREST)
        return np.asarray(logit(probability))

    def in_both_orders(self, rows: pl.DataFrame) -> np.ndarray:
        """See `Scorer`."""
        result = np.full((len(rows), 2), np.nan)
        pairs = rows.select("prompt", response_a="response", response_b="reference").with_row_index("row").drop_nulls()
        found = presentations(self.reward.tokenizer, self.reward.judge, pairs, max_prompt_tokens=self.max_prompt_tokens)
        if found.rows:
            logits = self._stored([order for orders in found.rows.values() for order in orders]).reshape(-1, 2, 2)
            logits[:, 1] = logits[:, 1, ::-1]  # shown second, the response is named by the second verdict
            result[pairs["row"].to_numpy()[list(found.rows)]] = order_probabilities(logits)
        return result

    def _stored(self, shown: list[Encoded]) -> np.ndarray:
        """Logits of both verdicts for each presentation, [n, 2]; what the store lacks is computed batch by batch."""
        weights, tokens = weights_key(self.reward.model), verdict_tokens(self.reward.tokenizer, self.reward.judge)
        keys = [content_key("verdict logits", weights, *tokens, *one.ids[: one.prompt_length]) for one in shown]
        distinct = dict(zip(keys, shown, strict=True))
        requested, most = list(distinct), self.max_batch_tokens
        vocabulary = self.reward.model.config.vocab_size
        plan = plan_batches(list(distinct.values()), max_batch_tokens=most, vocabulary=vocabulary)
        self.store.fill(
            ([requested[i] for i in batch] for batch in plan),
            lambda batch: presented_verdicts(
                self.reward, [distinct[key] for key in batch], max_batch_tokens=most
            ).astype(np.float32),
            what="verdicts",
        )
        return np.array([self.store.arrays[key] for key in keys], dtype=np.float64)
