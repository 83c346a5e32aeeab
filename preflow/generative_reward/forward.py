"""What a language model says of labelled pairs as a judge, for `preflow.lm.trainer.train`."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from torch import Tensor

from preflow.generative_reward.losses import Convention, verdict_loss
from preflow.lm.logprobs import head_only_where
from preflow.lm.trainer import Forward, Objective


@dataclass(frozen=True)
class VerdictLogits:
    """Logits of the two verdicts for a batch of presentations, each [B].

    Raises
    ------
    ValueError
        They are not of one shape [B].
    """

    winner: Tensor
    """Of the verdict for the chosen response."""
    loser: Tensor
    share: Tensor | None = None
    """Share of the votes for chosen, [B]; None where labels are hard."""

    def __post_init__(self) -> None:
        if self.winner.shape != self.loser.shape or self.winner.dim() != 1:
            raise ValueError(f"logits are {[*self.winner.shape]} and {[*self.loser.shape]}; both must be [B]")

    @property
    def margin(self) -> Tensor:
        """D, [B]."""
        return self.winner - self.loser

    def swapped(self) -> "VerdictLogits":
        """The same presentations with the other response chosen."""
        return VerdictLogits(self.loser, self.winner, None if self.share is None else 1 - self.share)


def verdict_objective(*, label_smoothing: float, convention: Convention) -> Objective:
    """`verdict_loss` of `VerdictLogits`; with shares `soft_label_loss` makes it the loss expected over the votes."""
    return partial(_loss, label_smoothing=label_smoothing, convention=convention)


def verdict_logits(
    model: torch.nn.Module, input_ids: Tensor, predicts: Tensor, pairs: int, share: Tensor | None = None
) -> VerdictLogits:
    """Logits of the verdicts of a batch that `collate` made; no other token's logit is looked at.

    The two sides of an example are one presentation with either verdict. They differ in their last token alone, so the
    model reads only the chosen side.

    Parameters
    ----------
    input_ids, predicts
        [2B, T]: with the right verdict, then with the wrong one.
    pairs
        B.
    share
        Of the votes, for chosen, [B].
    """
    right, wrong = input_ids.roll(-1, dims=1)[predicts].split(pairs)
    logits = presented_logits(model, input_ids[:pairs], predicts[:pairs])
    winner, loser = (logits.gather(1, token[:, None])[:, 0] for token in (right, wrong))
    return VerdictLogits(winner, loser, share)


def presented_logits(model: torch.nn.Module, input_ids: Tensor, predicts: Tensor) -> Tensor:
    """Logits of every token as the verdict, float32 [B, V]; `predicts` holds one position of each row."""
    with head_only_where(extract_model_from_parallel(model), predicts):
        logits: Tensor = model(input_ids=input_ids, use_cache=False).logits
    return logits.float()


def _loss(pairs: VerdictLogits, **smoothing: Any) -> Tensor:
    logits = torch.stack([pairs.winner, pairs.loser], dim=1)
    return verdict_loss(logits, logits.new_zeros(len(logits), dtype=torch.int64), **smoothing)


@torch.no_grad()
def _metrics(pairs: VerdictLogits) -> dict[str, Tensor]:
    return {"margin": pairs.margin.mean(), "accuracy": (pairs.margin > 0).float().mean()}


VERDICT = Forward(verdict_logits, _metrics, "CAUSAL_LM")
"""What `preflow.lm.trainer.train` asks of a judge."""
