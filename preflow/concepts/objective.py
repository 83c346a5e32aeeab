"""What a stack of concept bottlenecks minimises on a batch."""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.loss import Beside
from preflow.concepts.recipe import Recipe, Setting
from preflow.concepts.stack import Stack

STEPS = 1_000_003  # more than any training makes: no two of seed and step share their draws


class Objective:
    """Label loss plus lambda times concept loss of every model, on rows of train."""

    def __init__(
        self,
        stack: Stack,
        train: ConceptArrays,
        settings: Sequence[Setting],
        recipe: Recipe,
        beside: Beside,
        *,
        seed: int,
    ) -> None:
        self.stack, self.train, self.recipe, self.beside = stack, train, recipe, beside
        self.weights = torch.tensor([setting.weight for setting in settings])
        self.runs = [(loss, len(list(same))) for loss, same in groupby(setting.loss for setting in settings)]
        self.samples = max(loss.samples for loss, _ in self.runs)
        self.seed, self.step = seed, 0

    def __call__(self, rows: Tensor) -> Tensor:
        """The loss of every model times their number, [models], so that their mean is the sum of their losses."""
        inputs, labels = self.train.inputs[rows], self.train.concepts[rows]
        self.step += 1  # draws are those of the step: no model's depend on how many another one takes
        draws = torch.Generator().manual_seed(STEPS * self.seed + self.step)
        logits, classes = self.forward(inputs, labels, draws)
        target = self.train.classes[rows].expand(len(classes), -1)
        task = cross_entropy(classes.transpose(1, 2), target, reduction="none").mean(1)
        return (task + self.weights * self.concept_losses(logits, labels, rows, draws)) * len(classes)

    def forward(self, inputs: Tensor, labels: Tensor, draws: torch.Generator) -> tuple[Tensor, Tensor]:
        """Concept logits and label logits; what the head learns from is a matter of the mode."""
        nothing = torch.full_like(labels, torch.nan)
        if self.recipe.mode == "joint":
            if self.recipe.architecture.embedding:
                keep = torch.rand(labels.shape, generator=draws) < self.recipe.intervened
                nothing = torch.where(keep, labels, nothing)
            return self.stack(inputs, nothing)
        logits, _ = self.stack(inputs, nothing)
        given = torch.sigmoid(logits.detach())
        if self.recipe.mode == "independent":
            given = torch.where(labels.isnan(), given, labels)
        return logits, self.stack(inputs, given)[1]

    def concept_losses(self, logits: Tensor, labels: Tensor, rows: Tensor, draws: torch.Generator) -> Tensor:
        """The concept loss of every model, [models]."""
        prior = None if self.beside.prior is None else self.beside.prior[rows]
        uniforms = torch.rand(self.samples, *labels.shape, generator=draws)
        beside = Beside(prior, uniforms, self.beside.flip_rates)
        parts = logits.split([count for _, count in self.runs])
        return torch.cat(
            [loss(part, labels, beside).mean(-1) for (loss, _), part in zip(self.runs, parts, strict=True)]
        )
