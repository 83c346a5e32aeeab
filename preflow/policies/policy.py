"""A policy: weights and the tokenizer that belongs to them, loaded and saved together."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from preflow.weights import weights_sha256


@dataclass(frozen=True)
class Policy:
    """A language model that answers chat messages."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast

    def save_pretrained(self, folder: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer with its chat template."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def load_policy(folder: Path, *, chat_template: str | None) -> Policy:
    """The policy in a folder of the `save_pretrained` form, in the dtype it was saved in; on the GPU if there is one.

    Parameters
    ----------
    chat_template
        Jinja source for a model whose tokenizer has none, or to replace its own; None keeps what there is.

    Raises
    ------
    ValueError
        There is no chat template or no fast tokenizer, or the weights are no safetensors.
    """
    weights_sha256(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise ValueError(  # noqa: TRY004
            f"the tokenizer in {folder} has no fast form (tokenizer.json), which chat encoding needs"
        )
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    if not tokenizer.chat_template:
        raise ValueError(f"the tokenizer in {folder} has no chat template: name a file with one in the params")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    device: Any = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # mypy takes `to` for another function
    return Policy(model.to(device), tokenizer)
