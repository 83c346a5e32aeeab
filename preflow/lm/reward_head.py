"""Rewards from a language model: a linear head on the state of the last response token, tuned by `trainer.train`.

The model is what transformers calls a sequence classifier, made of a causal model's backbone and a new head, so that
`AutoModelForSequenceClassification` loads it. Where the response ends is known here and not looked for by a padding
token, which in many models ends responses as well. As in `logprobs`, batches are padded on the right without a mask.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import extract_model_from_parallel
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from preflow.lm.chat import Encoded
from preflow.lm.logprobs import pad, plan_batches
from preflow.lm.trainer import Forward
from preflow.objectives import bradley_terry
from preflow.weights import weights_sha256


@dataclass(frozen=True)
class PairRewards:
    """What a reward model says of a batch of pairs.

    Raises
    ------
    ValueError
        The outputs of the two sides are not both [B, K].
    """

    chosen: Tensor
    """Outputs of the head, [B, K]; the first is the reward."""
    rejected: Tensor
    share: Tensor | None = None
    """Share of the votes for chosen, [B]; None where labels are hard."""
    votes: Tensor | None = None
    """How many annotators gave each outcome, [B, outcomes]."""

    def __post_init__(self) -> None:
        shapes = [list(side.shape) for side in (self.chosen, self.rejected)]
        if shapes[0] != shapes[1] or len(shapes[0]) != 2:
            raise ValueError(f"outputs are {shapes[0]} of chosen and {shapes[1]} of rejected; both must be [B, K]")

    def swapped(self) -> "PairRewards":
        """The same pairs with the other response chosen; votes are not carried over, a share of them is."""
        return PairRewards(self.rejected, self.chosen, None if self.share is None else 1 - self.share)


def gap_loss(pairs: PairRewards) -> Tensor:
    """`bradley_terry` of the first outputs, [B]: the objective of a discriminative reward model."""
    return bradley_terry(pairs.chosen[:, 0], pairs.rejected[:, 0], None)


def reward_model(policy: PreTrainedModel, *, outputs: int, seed: int, about: dict[str, Any]) -> PreTrainedModel:
    """A copy of the policy's backbone with a head of so many outputs, drawn from `seed` alone.

    Parameters
    ----------
    about
        What to note in the model's config, under `preflow_reward`.

    Raises
    ------
    ValueError
        transformers has no sequence classifier of this kind of model.
    """
    config = deepcopy(policy.config)
    config.num_labels, config.preflow_reward = outputs, about
    if config.pad_token_id is None:  # without one transformers refuses batches; with `_pooled` it decides nothing
        config.pad_token_id = 0
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_config(config, dtype=policy.dtype)
    model.base_model.load_state_dict(policy.base_model.state_dict())
    device: Any = policy.device  # mypy takes `to` for another function
    return model.to(device).eval()


@dataclass(frozen=True)
class RewardModel:
    """A reward model and the tokenizer that belongs to it, loaded and saved together."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast

    def save_pretrained(self, folder: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer with its chat template."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def load_reward_model(folder: Path) -> RewardModel:
    """Read what `save_pretrained` wrote.

    Raises
    ------
    ValueError
        The weights are no safetensors, or the model in the folder is no reward model.
    """
    weights_sha256(folder)
    if "preflow_reward" not in json.loads((folder / "config.json").read_text()):
        raise ValueError(f"{folder / 'config.json'} names no preflow_reward: the head of this model would be untrained")
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype="auto")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)  # mypy: it might be a slow one
    return RewardModel(model, tokenizer)


def pair_rewards(
    model: torch.nn.Module,
    input_ids: Tensor,
    predicts: Tensor,
    pairs: int,
    share: Tensor | None = None,
    votes: Tensor | None = None,
) -> PairRewards:
    """Rewards of a batch that `preflow.lm.trainer.collate` made; see `pair_logprobs` there."""
    with _pooled(extract_model_from_parallel(model), predicts):
        outputs = model(input_ids=input_ids, use_cache=False).logits.float()
    return PairRewards(outputs[:pairs], outputs[pairs:], share, votes)


@torch.no_grad()
def response_rewards(model: PreTrainedModel, encoded: Sequence[Encoded], *, max_batch_tokens: int) -> np.ndarray:
    """Outputs of the head for each response, float32 [n, K], in the order of `encoded`; without gradients.

    Parameters
    ----------
    max_batch_tokens
        Tokens of a batch with padding; batches hold responses of similar length. A longer sequence goes alone.
    """
    outputs = len(model.get_parameter("score.weight"))
    result = np.empty((len(encoded), outputs), np.float32)
    training = model.training
    model.eval()
    for rows in plan_batches(encoded, max_batch_tokens=max_batch_tokens, vocabulary=outputs):
        input_ids, predicts = (tensor.to(model.device) for tensor in pad([encoded[row] for row in rows]))
        with _pooled(model, predicts):
            result[rows] = model(input_ids=input_ids, use_cache=False).logits.float().cpu().numpy()
    model.train(training)
    return result


@contextmanager
def _pooled(model: PreTrainedModel, predicts: Tensor) -> Iterator[None]:
    """Inside, the head sees at every position the state of the last response token, so that whichever is read is it."""
    rows = torch.arange(len(predicts), device=predicts.device)
    last = predicts.shape[1] - predicts.flip(1).int().argmax(1)  # one behind the last that predicts

    def last_states(_: Any, args: tuple[Tensor]) -> tuple[Tensor]:
        return (args[0][rows, last][:, None].expand_as(args[0]),)

    handle = model.get_submodule("score").register_forward_pre_hook(last_states)
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def _metrics(pairs: PairRewards) -> dict[str, Tensor]:
    chosen, rejected = pairs.chosen[:, 0], pairs.rejected[:, 0]
    margin = chosen - rejected
    return {
        "reward_chosen": chosen.mean(),
        "reward_rejected": rejected.mean(),
        "margin": margin.mean(),
        "accuracy": (margin > 0).float().mean(),
    }


REWARD = Forward(pair_rewards, _metrics, "SEQ_CLS")
"""What `preflow.lm.trainer.train` asks of a reward model."""
