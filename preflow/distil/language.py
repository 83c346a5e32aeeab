"""What the distillation of this room asks of a language model; n-grams and transformers both give it.

Prompts are anything with a length that an int64 tensor of row numbers indexes. Responses are token ids, int64 [n, T],
with PAD after the last token of a shorter one.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

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
    found = list(dict.fromkeys(model.vocabulary for model in models))
    if len(found) > 1:
        raise ValueError(
            f"token-level losses need one vocabulary, and these differ: {found}; take models with the same tokenizer"
        )


def repeated(prompts: Any, times: int) -> Any:
    """Every prompt `times` times, one after the other."""
    return prompts[torch.arange(len(prompts)).repeat_interleave(times)]
