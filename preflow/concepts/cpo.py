"""Concept Preference Optimization (Penaloza et al., ICML 2025), reconstructed: its equations and code were not read.

It takes the concept encoder for a policy pi(c|x) = prod_j Bern(sigmoid(z_j)), prefers the label c to a sample c' of
that policy and applies DPO; with log pi(c|x) - log pi(c'|x) = sum_j (c_j - c'_j) z_j it is

    -log sigmoid(beta sum_j (c_j - c'_j) (z_j - z0_j))

with z0 the logits of the reference, the prior (0: uniform). Two readings are open: one sigmoid over all concepts of an
item (`CPO(joint=True)`), or one per concept. No gradient flows through c'. Per concept the expectation over c' has a
closed form (`draws=0`); jointly it is a sum over 2^k samples, and is drawn.

Under flips with rate e both have the fixed point z = (logit(1 - e) + beta z0) / (1 + beta): with the labels drawn from
a product Q, Q(c) pi(c') sigmoid(-beta D) = Q(c') pi(c) sigmoid(beta D) for all pairs, so that every gradient cancels.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from preflow.concepts.loss import Beside, ConceptLoss


@dataclass(frozen=True, kw_only=True)
class CPO(ConceptLoss):
    """Concept Preference Optimization; see the module. A joint loss is one number per item and not reduced further."""

    beta: float
    joint: bool
    draws: int
    """Samples of the policy per item; 0 (per concept only) takes their expectation."""

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        super().__post_init__()
        if not 0 < self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}; it must be above 0, for at 0 nothing is learned")
        if self.joint and (self.draws < 1 or self.reduction != "mean"):
            raise ValueError("the joint form is sampled and one number per item: give draws >= 1, reduction mean")

    @property
    def name(self) -> str:  # type: ignore[override]
        """Which of the two forms."""
        return "cpo_joint" if self.joint else "cpo"

    @property
    def samples(self) -> int:
        """Samples of the policy per item."""
        return self.draws

    def __call__(self, logits: Tensor, labels: Tensor, beside: Beside) -> Tensor:
        """The loss of each item, [..., n]; jointly, a concept without a label adds nothing to the sum."""
        if not self.joint:
            return super().__call__(logits, labels, beside)
        sign, ratio = 2 * labels.nan_to_num(0.5) - 1, _log_ratio(logits, beside)
        wrong = _wrong(logits, sign, beside, self.draws)
        return softplus(-self.beta * (wrong * sign * ratio).sum(-1)).mean(0)

    def cells(self, logits: Tensor, sign: Tensor, beside: Beside) -> Tensor:
        """Log 2 where the sample is the label, -log sigmoid(beta s (z - z0)) where it is not."""
        missed = softplus(-self.beta * sign * _log_ratio(logits, beside))
        if self.draws == 0:
            share = torch.sigmoid(-sign * logits).detach()
        else:
            share = _wrong(logits, sign, beside, self.draws).mean(0)
        return math.log(2) + share * (missed - math.log(2))


def _log_ratio(logits: Tensor, beside: Beside) -> Tensor:
    return logits if beside.prior is None else logits - beside.prior


def _wrong(logits: Tensor, sign: Tensor, beside: Beside, samples: int) -> Tensor:
    """1 where a sample of the policy differs from the label, [samples, ..., n, k]; one draw decides for every model."""
    if beside.uniforms is None or len(beside.uniforms) < samples:
        raise ValueError(f"this loss draws {samples} samples; give at least as many uniform draws")
    uniforms = beside.uniforms[:samples].unflatten(0, (samples, *[1] * (logits.dim() - 2)))
    present = uniforms < torch.sigmoid(logits.detach())
    return ((present != (sign > 0)) & (sign != 0)).to(logits.dtype)
