"""Rewards with a mean and a variance per response, as pure functions of tensors (Zhang et al., ICML 2025).

The reward of a response differs between annotators: r ~ N(mu, sigma^2). So does the difference of two responses,

    d = r_A - r_B ~ N(mu_A - mu_B, sigma_A^2 + sigma_B^2 - 2 rho sigma_A sigma_B),

and what an annotator says is the bin of d: a tie in (-.5, .5), slightly better up to 1.5, clearly better beyond. Any
model that gives mu and sigma per response can be trained on these losses. Where an annotator did not state the strength
of a preference, the outcome is the union of two bins. Tensors of bins and of outcomes have their columns in the order
of BINS and OUTCOMES.
"""

import torch
from torch import Tensor
from torch.special import log_ndtr

from preflow.divergence.schemas import BINS, OUTCOMES

CUTS = (-1.5, -0.5, 0.5, 1.5)


def difference(mu: tuple[Tensor, Tensor], sigma: tuple[Tensor, Tensor], *, rho: float) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of r_A - r_B, [n] each, from those of A and of B.

    Raises
    ------
    ValueError
        `rho`, the correlation of the two rewards over annotators, is outside [0, 1).
    """
    if not 0 <= rho < 1:
        raise ValueError(f"rho is {rho}; the correlation of two rewards must lie in [0, 1) to leave them a variance")
    # = sigma_A^2 + sigma_B^2 - 2 rho sigma_A sigma_B, but never rounded below 0.
    variance = (1 - rho) * (sigma[0] ** 2 + sigma[1] ** 2) + rho * (sigma[0] - sigma[1]) ** 2
    return mu[0] - mu[1], variance.sqrt()


def log_bins(mean: Tensor, sd: Tensor) -> Tensor:
    """The log P of the five bins, [n, 5], of a normal difference with positive sd, [n] each; finite in the tails."""
    cuts = torch.tensor(CUTS, dtype=mean.dtype, device=mean.device)
    z = (cuts - mean[:, None]) / sd[:, None]
    low, high = z[:, :-1], z[:, 1:]
    # Mirror a bin right of the mean to its left: there log Phi keeps its digits, while Phi near 1 has lost them.
    mirrored = low + high > 0
    low, high = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    inner = log_ndtr(high) + torch.log(-torch.expm1(log_ndtr(low) - log_ndtr(high)))
    return torch.cat([log_ndtr(z[:, :1]), inner, log_ndtr(-z[:, -1:])], dim=1)


def with_unstated(log_probabilities: Tensor) -> Tensor:
    """The log P of all outcomes, [n, 7], from that of the five bins, [n, 5]: b or a by whatever strength come last."""
    either = [log_probabilities[:, part].logsumexp(1, keepdim=True) for part in (slice(0, 2), slice(3, 5))]
    return torch.cat([log_probabilities, *either], dim=1)


def kl_loss(log_probabilities: Tensor, counts: Tensor) -> Tensor:
    """KL(histogram of the annotators || prediction), [n]: sum_k h_k (log h_k - log p_k), h = counts / annotators.

    Where some annotators of a pair stated a strength and others did not, it is a KL up to a constant of the votes.

    Raises
    ------
    ValueError
        The shapes are not [n, 5] and [n, 7], or a pair has no votes.
    """
    share = _shares(log_probabilities, counts)
    return (torch.xlogy(share, share) - share * with_unstated(log_probabilities)).sum(1)


def nll_loss(mean: Tensor, sd: Tensor, share_a: Tensor) -> Tensor:
    """Negative log-likelihood of which side won, [n]: -s log Phi(m / sd) - (1 - s) log Phi(-m / sd), a tie half each.

    Sides alone, as in distributional preference learning (Siththaranjan et al., ICLR 2024): neither strengths nor ties
    are seen, so that only m / sd is determined and not the scale of either.
    """
    return -share_a * log_ndtr(mean / sd) - (1 - share_a) * log_ndtr(-mean / sd)


def opposite_sides(log_probabilities: Tensor) -> Tensor:
    """2 P(a) P(b), [n]: the probability that two annotators, drawn independently, prefer different responses."""
    sides = with_unstated(log_probabilities)[:, len(BINS) :]
    return 2 * sides.sum(1).exp()


def _shares(log_probabilities: Tensor, counts: Tensor) -> Tensor:
    if log_probabilities.shape != (len(counts), len(BINS)) or counts.shape[1:] != (len(OUTCOMES),):
        raise ValueError(
            f"bins are {list(log_probabilities.shape)} and counts {list(counts.shape)}; they must be [n, 5] and [n, 7]"
        )
    votes = counts.sum(1, keepdim=True)
    if (votes == 0).any():
        raise ValueError(f"{int((votes == 0).sum())} of {len(counts)} pairs have no votes; leave them out")
    return counts / votes
