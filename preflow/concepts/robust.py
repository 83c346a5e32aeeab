"""Cross-entropy on concept logits and its noise-robust relatives, each for two classes, present and absent."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from preflow.concepts.loss import Beside, ConceptLoss

LOG_ZERO = -4.0  # what symmetric cross-entropy takes for log 0 (Wang et al., 2019, section 4.1)


class BCE(ConceptLoss):
    """Binary cross-entropy, -log p_c."""

    name = "bce"

    def cells(self, logits: Tensor, sign: Tensor, _beside: Beside) -> Tensor:
        """Softplus(-s z)."""
        return softplus(-sign * logits)


@dataclass(frozen=True, kw_only=True)
class SmoothedBCE(ConceptLoss):
    """BCE against labels moved by `smoothing` towards 1/2 (Szegedy et al., 2016; for noise Lukasik et al., 2020)."""

    smoothing: float
    name = "smoothed_bce"

    def cells(self, logits: Tensor, sign: Tensor, _beside: Beside) -> Tensor:
        """The expected BCE of a label that is turned round with probability smoothing / 2."""
        return softplus(-sign * logits) + self.smoothing / 2 * sign * logits


@dataclass(frozen=True, kw_only=True)
class GeneralisedCE(ConceptLoss):
    """(1 - p_c^q) / q: BCE for q -> 0, mean absolute error for q = 1 (Zhang and Sabuncu, 2018, eq. 6)."""

    q: float
    name = "generalised_ce"

    def cells(self, logits: Tensor, sign: Tensor, _beside: Beside) -> Tensor:
        """(1 - p_c^q) / q."""
        return -torch.expm1(self.q * logsigmoid(sign * logits)) / self.q


@dataclass(frozen=True, kw_only=True)
class SymmetricBCE(ConceptLoss):
    """Weight * BCE + reverse cross-entropy, -log 0 taken as 4 (Wang et al., 2019, eq. 7)."""

    weight: float
    name = "symmetric_bce"

    def cells(self, logits: Tensor, sign: Tensor, _beside: Beside) -> Tensor:
        """With two classes the reverse part is 4 (1 - p_c)."""
        return self.weight * softplus(-sign * logits) - LOG_ZERO * torch.sigmoid(-sign * logits)


class ForwardBCE(ConceptLoss):
    """BCE of the noisy label: p_c mixed with 1 - p_c by the estimated flip rate (Patrini et al., 2017, theorem 2)."""

    name = "forward_bce"

    def cells(self, logits: Tensor, sign: Tensor, beside: Beside) -> Tensor:
        """-log((1 - e) p_c + e (1 - p_c)).

        Raises
        ------
        ValueError
            No flip rates are given, or one is not in [0, 1/2).
        """
        rates = beside.flip_rates
        if rates is None or not ((rates >= 0) & (rates < 0.5)).all():
            raise ValueError("forward correction needs a flip rate in [0, 1/2) of each concept; estimate it first")
        return -torch.log(rates + (1 - 2 * rates) * torch.sigmoid(sign * logits))
