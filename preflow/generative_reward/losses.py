"""The loss of a verdict: cross-entropy among the verdicts alone, smoothed by one of two conventions.

With two verdicts and D = z(winner) - z(loser) it is the Bradley-Terry loss and a linear penalty on the margin,

    -log sigmoid(D) + e' D,     e' = e ("paper") or e / 2 ("torch"),

whose minimum is at D = log((1 - e') / e'). Wang et al. 2025 state the first; their code calls torch's cross-entropy,
which spreads e over all verdicts, the right one included, so that its 0.1 is the paper's 0.05.
"""

from math import inf, log
from typing import Literal, get_args

from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, logsigmoid

Convention = Literal["paper", "torch"]
VERDICTS = 2


def verdict_loss(logits: Tensor, winner: Tensor, *, label_smoothing: float, convention: Convention) -> Tensor:
    """Smoothed cross-entropy of the right verdict, [B].

    Parameters
    ----------
    logits
        Of the K verdicts and of no other token, [B, K].
    winner
        Number of the right verdict, [B] int64.
    label_smoothing
        e: `paper` gives the right verdict 1 - e and the others e / (K - 1), `torch` gives every verdict e / K of e.

    Raises
    ------
    ValueError
        The shapes are not [B, K] and [B], K is below 2, the convention is unknown or e is out of its range.
    """
    if logits.dim() != 2 or logits.shape[1] < VERDICTS or winner.shape != logits.shape[:1]:
        raise ValueError(f"logits must be [B, K], K at least 2, and winner [B]; got {[*logits.shape], [*winner.shape]}")
    share = _wrong_share(label_smoothing, convention, logits.shape[1])
    if convention == "torch":
        return cross_entropy(logits, winner, label_smoothing=label_smoothing, reduction="none")
    log_p = log_softmax(logits, dim=1)
    right = log_p.gather(1, winner[:, None])[:, 0]
    return -(1 - share) * right - share * (log_p.sum(1) - right) / (logits.shape[1] - 1)


def smoothed_ranking_loss(margin: Tensor, *, label_smoothing: float, convention: Convention) -> Tensor:
    """-log sigmoid(D) + e' D of margins D: what `verdict_loss` is for two verdicts; see the module. Raises as there."""
    return -logsigmoid(margin) + _wrong_share(label_smoothing, convention, VERDICTS) * margin


def best_margin(*, label_smoothing: float, convention: Convention) -> float:
    """The margin of two verdicts at which their loss is least, log((1 - e') / e'); without smoothing there is none.

    Raises
    ------
    ValueError
        See `verdict_loss`.
    """
    share = _wrong_share(label_smoothing, convention, VERDICTS)
    return log((1 - share) / share) if share else inf


def _wrong_share(label_smoothing: float, convention: Convention, verdicts: int) -> float:
    """What all wrong verdicts get together."""
    if convention not in get_args(Convention):
        raise ValueError(f"unknown convention {convention!r} of label smoothing: known are paper and torch")
    top = (verdicts - 1) / verdicts if convention == "paper" else 1.0
    if not 0 <= label_smoothing < top:
        raise ValueError(
            f"label_smoothing is {label_smoothing}; in the convention {convention!r} it must be in [0, {top:g}), since "
            "at its end labels say nothing"
        )
    return label_smoothing if convention == "paper" else label_smoothing * (verdicts - 1) / verdicts
