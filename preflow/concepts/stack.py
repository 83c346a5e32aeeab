"""Many bottlenecks of one architecture, run as one network (torch.func.vmap over stacked parameters)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.networks import Architecture, Bottleneck, build

ROWS = 2048  # items predicted at a time


@dataclass(frozen=True)
class Predictions:
    """What each model of a stack says of each item."""

    concepts: Tensor
    """Concept logits, [models, n, k]."""
    classes: Tensor
    """Label logits, [models, n, classes]."""


class Stack(nn.Module):
    """`size` copies of a bottleneck, whose parameters are stacked along a first axis and trained apart."""

    def __init__(self, first: Bottleneck, size: int) -> None:
        super().__init__()
        self.template = [first]  # in a list, so that its own parameters are none of this module
        self.names = [name for name, _ in first.named_parameters()]
        self.stacked = nn.ParameterList(
            [values.detach().repeat(size, *[1] * values.dim()) for values in first.parameters()]
        )

    def __len__(self) -> int:
        return len(self.stacked[0])

    def forward(self, inputs: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """Concept and label logits of every model; `given`, [n, k] or [models, n, k], as in `Bottleneck`."""
        first = self.template[0]
        fixed = dict(first.named_buffers())

        def one(parameters: dict[str, Tensor], given: Tensor) -> tuple[Tensor, Tensor]:
            return functional_call(first, parameters | fixed, (inputs, given))

        parameters = dict(zip(self.names, self.stacked, strict=True))
        return vmap(one, in_dims=(0, 0 if given.dim() == 3 else None))(parameters, given)

    @torch.no_grad()
    def predict(self, arrays: ConceptArrays, given: Tensor | None = None) -> Predictions:
        """Predictions for all items; `given` as in `forward`, None where nothing is."""
        given = torch.full_like(arrays.concepts, torch.nan) if given is None else given
        parts = [self(x, g) for x, g in zip(arrays.inputs.split(ROWS), given.split(ROWS, dim=-2), strict=True)]
        return Predictions(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))

    @torch.no_grad()
    def take_over(self, other: "Stack", models: Tensor) -> None:
        """Take the parameters of `other` for those models, [models] of bool."""
        for mine, theirs in zip(self.stacked, other.stacked, strict=True):
            mine[models] = theirs[models]

    def one(self, model: int) -> Bottleneck:
        """The bottleneck with this number."""
        first = self.template[0]
        config: dict[str, Any] = first.config
        copy = build(
            config["shape"], config["concepts"], config["classes"], Architecture(**config["architecture"]), seed=0
        )
        own = {name: values[model].detach() for name, values in zip(self.names, self.stacked, strict=True)}
        copy.load_state_dict(first.state_dict() | own)
        return copy
