"""Supervised fine-tuning on the oracle's responses, which is where both teacher and student come from."""

from copy import deepcopy
from math import ceil
from typing import Any, TypeVar

from torch import Tensor

from preflow.distil.divergences import over_tokens, token_logprob
from preflow.distil.language import LanguageModel
from preflow.fit import shuffled_batches

Model = TypeVar("Model", bound=LanguageModel)


def sft(model: Model, prompts: Any, responses: Tensor, *, epochs: int, batch_size: int, lr: float, seed: int) -> Model:
    """A copy of `model`, fine-tuned on the responses, [n, T], by maximum likelihood."""
    trained = deepcopy(model)

    def losses(rows: Tensor) -> Tensor:
        logprobs = trained.logprobs(prompts[rows], responses[rows])
        tokens = responses[rows].to(logprobs.device)
        return over_tokens(-token_logprob(logprobs, tokens), tokens)

    batches = shuffled_batches(len(responses), batch_size=batch_size, epochs=epochs, seed=seed)
    steps = epochs * ceil(len(responses) / batch_size)
    trained.fit(losses, batches, steps=steps, batch_size=batch_size, lr=lr)
    return trained
