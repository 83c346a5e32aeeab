"""Training objectives as pure functions of summed log-probabilities; a loss per pair, so that its mean is trained on.

log pi(y|x) is the sum over the tokens of y; nothing is divided by a length unless the equation says so.
Reward-augmented (goal-conditioned) training is `dpo` on other data, so it has no function here. To train, fix the
settings with `functools.partial`: `partial(dpo, beta=0.1, label_smoothing=0.0)`. Soft labels are no objective of their
own: `soft_label_loss` mixes any objective of pairs with that of the pairs swapped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

ALONE = "this objective compares pairs, but the examples have no rejected response"


@dataclass(frozen=True)
class PairLogprobs:
    """Log-probabilities of a batch of pairs, each [B]. Only SFT goes without `rejected`.

    Raises
    ------
    ValueError
        A shape is not [B]: see `bradley_terry`.
    """

    chosen: Tensor
    """log pi(chosen | prompt)."""
    chosen_tokens: Tensor
    """Number of tokens of chosen."""
    rejected: Tensor | None = None
    rejected_tokens: Tensor | None = None
    chosen_reference: Tensor | None = None
    """log pi_ref(chosen | prompt), a constant."""
    rejected_reference: Tensor | None = None
    share: Tensor | None = None
    """Share of the votes for chosen, in [0, 1]; None where all labels are hard."""

    def __post_init__(self) -> None:
        _check_shapes("log-probabilities and lengths", **vars(self))

    def pair(self) -> tuple[Tensor, Tensor]:
        """Both log pi, of chosen and of rejected, [B] each.

        Raises
        ------
        ValueError
            There are no rejected responses.
        """
        if self.rejected is None:
            raise ValueError(ALONE)
        return self.chosen, self.rejected

    def log_ratios(self) -> tuple[Tensor, Tensor]:
        """Both log-ratios, log pi - log pi_ref, of chosen and of rejected, [B] each.

        Raises
        ------
        ValueError
            There are no rejected responses or no reference log-probabilities.
        """
        chosen, rejected = self.pair()
        if self.chosen_reference is None or self.rejected_reference is None:
            raise ValueError("this objective needs reference log-probabilities; add them with `with_reference`")
        return chosen - self.chosen_reference, rejected - self.rejected_reference

    def lengths(self) -> tuple[Tensor, Tensor]:
        """Tokens of chosen and of rejected, at least 1, [B] each."""
        if self.rejected_tokens is None:
            raise ValueError(ALONE)
        return self.chosen_tokens.clamp(min=1), self.rejected_tokens.clamp(min=1)

    def swapped(self) -> "PairLogprobs":
        """The same pairs with the other response chosen.

        Raises
        ------
        ValueError
            There are no rejected responses.
        """
        if self.rejected is None or self.rejected_tokens is None:
            raise ValueError(ALONE)
        return PairLogprobs(
            chosen=self.rejected,
            chosen_tokens=self.rejected_tokens,
            rejected=self.chosen,
            rejected_tokens=self.chosen_tokens,
            chosen_reference=self.rejected_reference,
            rejected_reference=self.chosen_reference,
            share=None if self.share is None else 1 - self.share,
        )


class Pairs(Protocol):
    """Pairs that can be swapped, with the share of the votes for chosen, [B], or None."""

    @property
    def share(self) -> Tensor | None:
        """Share of the votes for chosen, [B]; None where all labels are hard."""

    def swapped(self) -> Self:
        """The same pairs with the other response chosen."""


P = TypeVar("P", bound=Pairs)


def soft_label_loss(objective: Callable[[P], Tensor], pairs: P) -> Tensor:
    """The expected loss under labels drawn from the votes, [B]: s L(pairs) + (1 - s) L(swapped pairs), s the share.

    Without shares it is the objective itself. For `dpo` it is cDPO with e = 1 - s, one e a pair (Mitchell 2023, eq. 3).
    """
    if pairs.share is None:
        return objective(pairs)
    return pairs.share * objective(pairs) + (1 - pairs.share) * objective(pairs.swapped())


def dpo(pairs: PairLogprobs, *, beta: float, label_smoothing: float) -> Tensor:
    """Direct preference optimisation, [B]: -(1-e) log s(b D) - e log s(-b D), s the sigmoid.

    D = [log pi - log pi_ref](chosen) - [log pi - log pi_ref](rejected), b = beta, e = label_smoothing (cDPO). At
    D = 0 it is ln 2; with e > 0 it is least where s(b D) = 1 - e. Rafailov et al. 2023, eq. 7; Mitchell 2023, eq. 3.

    Raises
    ------
    ValueError
        beta is not positive or label_smoothing is outside [0, 0.5).
    """
    _check(beta, label_smoothing)
    chosen, rejected = pairs.log_ratios()
    margin = beta * (chosen - rejected)
    return -(1 - label_smoothing) * logsigmoid(margin) - label_smoothing * logsigmoid(-margin)


def robust_dpo(pairs: PairLogprobs, *, beta: float, label_smoothing: float) -> Tensor:
    """DPO unbiased under labels flipped with probability e, [B]: [-(1-e) log s(b D) + e log s(-b D)] / (1 - 2e).

    Its mean over flips is the DPO loss of the true labels. Chowdhury et al. 2024 ("Provably robust DPO"), eq. 12.

    Raises
    ------
    ValueError
        beta is not positive or label_smoothing is outside [0, 0.5): at 0.5 labels carry no information.
    """
    _check(beta, label_smoothing)
    chosen, rejected = pairs.log_ratios()
    margin = beta * (chosen - rejected)
    unscaled = -(1 - label_smoothing) * logsigmoid(margin) + label_smoothing * logsigmoid(-margin)
    return unscaled / (1 - 2 * label_smoothing)


def ipo(pairs: PairLogprobs, *, beta: float) -> Tensor:
    """Identity preference optimisation, [B]: (h - 1 / (2 b))^2.

    h = [log pi - log pi_ref](chosen) / |chosen| - the same of rejected. Azar et al. 2023, eq. 17, with the mean over
    tokens that the authors used and TRL took over from them: with sums the target would depend on the lengths.

    Raises
    ------
    ValueError
        beta is not positive.
    """
    _check(beta)
    chosen, rejected = pairs.log_ratios()
    chosen_tokens, rejected_tokens = pairs.lengths()
    return (chosen / chosen_tokens - rejected / rejected_tokens - 1 / (2 * beta)) ** 2


def simpo(pairs: PairLogprobs, *, beta: float, target_margin: float) -> Tensor:
    """Reference-free SimPO, [B]: -log s(b [log pi(chosen)/|chosen| - log pi(rejected)/|rejected|] - g).

    g = target_margin. Meng et al. 2024, eq. 6.

    Raises
    ------
    ValueError
        beta is not positive.
    """
    _check(beta)
    chosen, rejected = pairs.pair()
    chosen_tokens, rejected_tokens = pairs.lengths()
    return -logsigmoid(beta * (chosen / chosen_tokens - rejected / rejected_tokens) - target_margin)


def sft(pairs: PairLogprobs) -> Tensor:
    """-log pi(chosen) over the mean length of the batch, [B]; the mean over the batch is its loss per token."""
    return -pairs.chosen / pairs.chosen_tokens.to(pairs.chosen.dtype).mean()


def bradley_terry(chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
    """Loss of rewards, [B]: -log s(r(chosen) - r(rejected) - m). Bradley and Terry 1952; margin m: Touvron et al. 2023.

    Parameters
    ----------
    chosen, rejected
        Rewards, [B].
    margin
        By how much chosen should win, [B]; None for 0.

    Raises
    ------
    ValueError
        A shape is not [B]: [B, 1] beside [B] would broadcast to [B, B] and train on pairs that do not exist. Or a pair
        has no finite margin, where others have one.
    """
    _check_shapes("rewards and margins", chosen=chosen, rejected=rejected, margin=margin)
    if margin is not None and not (finite := margin.isfinite()).all():
        lacking = len(margin) - int(finite.sum())
        raise ValueError(f"{lacking} of {len(margin)} margins are not finite; say 0, or leave these pairs out")
    return -logsigmoid(chosen - rejected - (torch.zeros_like(chosen) if margin is None else margin))


def _check_shapes(what: str, **tensors: Tensor | None) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items() if tensor is not None}
    if len(set(shapes.values())) != 1 or len(shapes["chosen"]) != 1:
        raise ValueError(f"{what} must all be [B]; got {shapes}")


def _check(beta: float, label_smoothing: float = 0.0) -> None:
    if not beta > 0:
        raise ValueError(f"beta must be above 0, not {beta}")
    if not 0 <= label_smoothing < 0.5:
        raise ValueError(f"label_smoothing must be in [0, 0.5), not {label_smoothing}: at 0.5 labels say nothing")
