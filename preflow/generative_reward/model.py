"""A generative reward model: weights, tokenizer and wording belong together and are loaded and saved together."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from preflow.generative_reward.judge import JudgePrompt, verdict_tokens
from preflow.policies.policy import Policy, load_policy

NOTED = "preflow_judge"


@dataclass(frozen=True)
class GenerativeRewardModel:
    """A language model that judges two responses.

    Raises
    ------
    ValueError
        A verdict is not one token; see `verdict_tokens`.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    judge: JudgePrompt

    def __post_init__(self) -> None:
        verdict_tokens(self.tokenizer, self.judge)

    @property
    def policy(self) -> Policy:
        """The same model as one that answers chats, to be trained further."""
        return Policy(self.model, self.tokenizer)

    def save_pretrained(self, folder: Path) -> None:
        """Write weights (safetensors), tokenizer, and a configuration that holds the wording."""
        setattr(self.model.config, NOTED, asdict(self.judge))
        self.policy.save_pretrained(folder)


def load_generative_reward(folder: Path) -> GenerativeRewardModel:
    """Read what `save_pretrained` wrote; on the GPU if there is one.

    Raises
    ------
    ValueError
        The folder holds no generative reward model, or see `load_policy`.
    """
    path = folder / "config.json"
    wording: dict[str, Any] | None = json.loads(path.read_text()).get(NOTED) if path.is_file() else None
    if wording is None:
        raise ValueError(f"{path} names no {NOTED}: the model there was not trained to judge; fit one, or name another")
    policy = load_policy(folder, chat_template=None)
    return GenerativeRewardModel(
        policy.model.eval(), policy.tokenizer, JudgePrompt(**wording | {"verdicts": tuple(wording["verdicts"])})
    )
