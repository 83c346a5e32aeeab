"""Responses with the distributions that a reference model has along them: to train on, and to measure on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from preflow.distil.divergences import FORWARD_KL, Loss
from preflow.distil.language import PAD, LanguageModel, repeated
from preflow.distil.targets import Targets, stored

MAX_CELLS = 2**24  # rows x positions x vocabulary that are held at once while measuring


@dataclass(frozen=True)
class States:
    """Prompts [n], responses [n, T] and the reference's distributions along them."""

    prompts: Any
    responses: Tensor
    targets: Targets

    def __len__(self) -> int:
        return len(self.responses)

    def losses_and_distances(self, student: LanguageModel, loss: Loss, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each of the rows, [m], and, without gradients, KL(reference || student), summed over tokens."""
        own = student.logprobs(self.prompts[rows], self.responses[rows])
        responses, reference = self.responses[rows].to(own.device), self.targets[rows].full().to(own.device)
        losses = loss(reference, own, responses)
        if loss == FORWARD_KL:
            return losses, losses.detach()
        return losses, FORWARD_KL(reference, own.detach(), responses)

    @torch.no_grad()
    def distances(self, student: LanguageModel) -> Tensor:
        """KL(reference || student) of each response, [n]: its token-level KL summed."""
        rows = torch.arange(len(self))
        parts = rows.split(_rows_at_once(self.responses, student))
        return torch.cat([self.losses_and_distances(student, FORWARD_KL, part)[1] for part in parts])

    def fingerprints(self) -> list[str]:
        """A digest of each response and the row of its prompt: equal where the same prompt has the same response."""
        rows = self.responses.cpu().numpy()
        return [hashlib.sha256(b"%d:" % row + tokens.tobytes()).hexdigest() for row, tokens in enumerate(rows)]


@torch.no_grad()
def states_along(reference: LanguageModel, prompts: Any, responses: Tensor, *, top_k: int | None) -> States:
    """The states of given responses, computed a part at a time."""
    parts = [
        stored(reference.logprobs(prompts[rows], responses[rows]), top_k=top_k)
        for rows in torch.arange(len(responses)).split(_rows_at_once(responses, reference))
    ]
    logprobs = torch.cat([part.logprobs for part in parts])
    tokens = None if top_k is None else torch.cat([part.tokens for part in parts if part.tokens is not None])
    return States(prompts, responses, Targets(logprobs, tokens, parts[0].vocabulary))


def held_out_states(
    reference: LanguageModel, prompts: Any, *, generator: torch.Generator, top_k: int | None = None
) -> States:
    """One response of the reference itself to each prompt: the teacher's for proxy, the oracle's for golden."""
    return states_along(reference, prompts, reference.sample(prompts, generator), top_k=top_k)


def training_states(
    teacher: LanguageModel,
    student: LanguageModel,
    prompts: Any,
    *,
    generations: int,
    student_share: float,
    top_k: int | None,
    generator: torch.Generator,
) -> States:
    """Responses to each prompt, by the student with chance `student_share`, with the teacher's targets along them."""
    all_prompts = repeated(prompts, generations)
    by_student = torch.rand(len(all_prompts), generator=generator) < student_share
    parts = []
    for model, where in ((teacher, ~by_student), (student, by_student)):
        rows = where.nonzero()[:, 0]
        if len(rows):
            parts.append((rows, model.sample(all_prompts[rows], generator)))
    return states_along(teacher, all_prompts, _in_order(parts), top_k=top_k)


def _in_order(parts: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Responses of several models, padded to the longest, each at its row."""
    n, width = sum(len(rows) for rows, _ in parts), max(tokens.shape[1] for _, tokens in parts)
    responses = torch.full((n, width), PAD)
    for rows, tokens in parts:
        responses[rows, : tokens.shape[1]] = tokens
    return responses


def _rows_at_once(responses: Tensor, model: LanguageModel) -> int:
    return max(1, MAX_CELLS // (responses.shape[1] * model.vocabulary_size))
