"""A teacher's next-token distributions, stored exactly or as their k most probable tokens.

What is left of the probability is spread evenly over the other tokens, so that a truncated distribution is one over the
whole vocabulary and every loss takes it as it takes an exact one. Renormalising the k instead would make the forward KL
of a perfect student positive.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from preflow.distil.divergences import Loss, kl, over_tokens

_SMALLEST = 1e-30  # of the rest, so that it stays finite as a float32 logarithm


@dataclass(frozen=True)
class Targets:
    """Distributions of n responses of T tokens; make them with `stored`."""

    logprobs: Tensor
    """[n, T, V] where exact, else those of the kept tokens, [n, T, k]."""
    tokens: Tensor | None
    """The kept tokens, int32 [n, T, k], or None where exact."""
    vocabulary: int
    """V."""

    def __getitem__(self, rows: Tensor) -> "Targets":
        return Targets(self.logprobs[rows], None if self.tokens is None else self.tokens[rows], self.vocabulary)

    def full(self) -> Tensor:
        """Log-probabilities of the whole vocabulary, [n, T, V]."""
        if self.tokens is None:
            return self.logprobs
        others = self.vocabulary - self.tokens.shape[-1]
        rest = (1 - self.logprobs.exp().sum(-1, keepdim=True)).clamp(min=_SMALLEST) / others
        spread = rest.log().expand(*rest.shape[:-1], self.vocabulary)
        return spread.scatter(-1, self.tokens.long(), self.logprobs)

    @property
    def bytes(self) -> int:
        """What storing them takes."""
        return sum(part.numel() * part.element_size() for part in (self.logprobs, self.tokens) if part is not None)


def stored(logprobs: Tensor, *, top_k: int | None) -> Targets:
    """The distributions, [n, T, V], exactly, or as their `top_k` most probable tokens.

    Raises
    ------
    ValueError
        `top_k` is not between 1 and V - 1.
    """
    vocabulary = logprobs.shape[-1]
    if top_k is None:
        return Targets(logprobs, None, vocabulary)
    if not 0 < top_k < vocabulary:
        raise ValueError(f"top_k is {top_k} of {vocabulary} tokens; take 1 to {vocabulary - 1}, or None to store all")
    values, tokens = logprobs.topk(top_k, dim=-1)
    return Targets(values, tokens.int(), vocabulary)


@torch.no_grad()
def truncation_error(exact: Tensor, student: Tensor, responses: Tensor, loss: Loss, *, top_k: int) -> dict[str, float]:
    """What storing the `top_k` tokens alone costs, as means over responses [n, T].

    Parameters
    ----------
    exact, student
        Log-probabilities of teacher and student, [n, T, V].

    Returns
    -------
    `kl`, KL(exact || truncated) summed over tokens; `loss_exact` and `loss_truncated`, and `loss_error`, the mean
    absolute difference of a response's two losses; `bytes_share`, of the storage of the exact ones.
    """
    kept = stored(exact, top_k=top_k)
    truncated = kept.full()
    losses = [loss(target, student, responses) for target in (exact, truncated)]
    return {
        "kl": float(over_tokens(kl(exact, truncated), responses).mean()),
        "loss_exact": float(losses[0].mean()),
        "loss_truncated": float(losses[1].mean()),
        "loss_error": float((losses[1] - losses[0]).abs().mean()),
        "bytes_share": kept.bytes / stored(exact, top_k=None).bytes,
    }
