"""What the distillation of this room asks of a language model; n-grams and transformers both give it.

Prompts are anything with a length that an int64 tensor of row numbers indexes. Responses are token ids, int64 [n, T],
with PAD after the last token of a shorter one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from preflow.fit import fit

PAD = -1


class LanguageModel(nn.Module, ABC):
    """A distribution over responses to a prompt, with parameters to train."""

    @property
    @abstractmethod
    def vocabulary(self) -> str:
        """Names the tokens and their numbers: two models can be compared token by token where it is the same."""

    @property
    @abstractmethod
    def vocabulary_size(self) -> int:
        """V, the number of tokens."""

    @abstractmethod
    def logprobs(self, prompts: Any, responses: Tensor) -> Tensor:
        """The log-probability of every token at every position, after those before it, [n, T, V]; at PAD any number."""

    @abstractmethod
    def sample(self, prompts: Any, generator: torch.Generator) -> Tensor:
        """One response to each prompt, [n, T]."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    def fit(
        self,
        losses: Callable[[Tensor], Tensor],
        batches: Iterable[Tensor],
        *,
        steps: int,  # noqa: ARG002
        batch_size: int,  # noqa: ARG002
        lr: float,
        after_step: Callable[[int], bool] | None = None,
    ) -> None:
        """Train on the mean of `losses(rows)`, [batch], of each of `steps` batches; see `preflow.fit.fit`.

        A batch is asked for when its update begins, and none after `after_step` said true.
        """
        fit(self, losses, batches, lr=lr, after_step=after_step)

    @abstractmethod
    def save_pretrained(self, folder: Path) -> None:
        """Write everything that makes the model again."""


def require_same_vocabulary(*models: LanguageModel) -> None:
    """Refuse models whose token distributions cannot be compared.

    Raises
    ------
    ValueError
        The vocabularies differ.
    """
    if len({model.vocabulary for model in models}) > 1:
        found = [f"{model.name} has {model.vocabulary}" for model in models]
        raise ValueError(
            f"token-level losses need one vocabulary, and these differ: {found}; take models with the same tokenizer"
        )


def repeated(prompts: Any, times: int) -> Any:
    """Every prompt `times` times, one after the other."""
    return prompts[torch.arange(len(prompts)).repeat_interleave(times)]
