"""Token-level distances between a teacher's and a student's next-token distributions, and the losses made of them.

With P the teacher, Q the student, at one position: forward KL(P || Q) and reverse KL(Q || P); Jeffreys
(1 - w) KL(P || Q) + w KL(Q || P); generalised Jensen-Shannon w KL(P || M) + (1 - w) KL(Q || M) with
M = w P + (1 - w) Q (Agarwal et al., "On-Policy Distillation of Language Models", ICLR 2024, arXiv 2306.13649, eq. 1);
SFT -log Q(token). A sequence's distance is the sum over its tokens. The paper trains on the forward KL, and on the
others as ablations.
"""

from dataclasses import dataclass
from math import log
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from preflow.distil.language import PAD

Name = Literal["forward_kl", "reverse_kl", "jeffreys", "generalised_js", "sft"]
WEIGHTED = ("jeffreys", "generalised_js")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a student is trained on.

    Raises
    ------
    ValueError
        The name is unknown, a weight is missing, needless or not between 0 and 1, or the temperature is not positive.
    """

    name: Name
    weight: float | None = None
    """Of the reverse KL in `jeffreys`; of the teacher in `generalised_js`."""
    temperature: float = 1.0
    """Divides the logits of both; 1 for `sft`."""

    def __post_init__(self) -> None:
        if self.name not in get_args(Name):
            raise ValueError(f"loss {self.name!r} is unknown; known are {sorted(get_args(Name))}")
        if (self.name in WEIGHTED) != (self.weight is not None):
            raise ValueError(f"loss {self.name} has weight {self.weight}; give one to {list(WEIGHTED)} and no other")
        if self.weight is not None and not 0 < self.weight < 1:
            raise ValueError(f"the weight of {self.name} is {self.weight}; at 0 and 1 take a loss without weight")
        if not self.temperature > 0 or (self.name == "sft" and self.temperature != 1):
            raise ValueError(f"temperature {self.temperature} of {self.name}; it must be positive, and 1 for sft")

    def __call__(self, teacher: Tensor, student: Tensor, responses: Tensor) -> Tensor:
        """Sum of the token losses of each response, [n], of log-probabilities [n, T, V] and responses [n, T]."""
        if self.name == "sft":
            return over_tokens(-token_logprob(student, responses), responses)
        if self.temperature != 1:
            teacher, student = (log_softmax(side / self.temperature, -1) for side in (teacher, student))
        return over_tokens(self._at_tokens(teacher, student), responses)

    def _at_tokens(self, p: Tensor, q: Tensor) -> Tensor:
        if self.name == "forward_kl":
            return kl(p, q)
        if self.name == "reverse_kl":
            return kl(q, p)
        w = self.weight or 0.0
        if self.name == "jeffreys":
            return (1 - w) * kl(p, q) + w * kl(q, p)
        mixed = torch.logaddexp(p + log(w), q + log(1 - w))
        return w * kl(p, mixed) + (1 - w) * kl(q, mixed)


FORWARD_KL = Loss(name="forward_kl")


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(P || Q) of log-probabilities, [..., V] to [...]; a token that P cannot have adds nothing."""
    probability = p.exp()
    return torch.where(probability > 0, probability * (p - q), 0.0).sum(-1)


def token_logprob(logprobs: Tensor, responses: Tensor) -> Tensor:
    """The log-probability of each token, [n, T], of those of the vocabulary, [n, T, V]."""
    return logprobs.gather(-1, responses.clamp(min=0)[..., None])[..., 0]


def over_tokens(values: Tensor, responses: Tensor) -> Tensor:
    """Sum over the tokens of each response, [n, T] to [n], without what stands at PAD."""
    return torch.where(responses == PAD, 0.0, values).sum(1)
