"""What a concept loss is: logits [..., n, k] of any number of models and labels [n, k], nan unknown, give [..., n]."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from torch import Tensor


@dataclass(frozen=True)
class Beside:
    """What a loss may need beside logits and labels."""

    prior: Tensor | None = None
    """Logits of the reference model, [n, k]; None: uniform."""
    uniforms: Tensor | None = None
    """Uniform draws, [samples, n, k] or more of them; one set for all models."""
    flip_rates: Tensor | None = None
    """Estimated flip rate of each concept, [k]."""


@dataclass(frozen=True, kw_only=True)
class ConceptLoss:
    """A loss with its settings. Per-concept losses are averaged (`mean`) or added (`sum`) over the known concepts."""

    reduction: str = "mean"
    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.reduction not in ("mean", "sum"):
            raise ValueError(f"reduction {self.reduction!r} is unknown; known are mean and sum")

    @property
    def samples(self) -> int:
        """Uniform draws wanted per cell."""
        return 0

    @property
    def settings(self) -> dict[str, Any]:
        """Name and settings, as they stand in a report."""
        return {"loss": self.name, "samples": self.samples} | asdict(self)

    def __call__(self, logits: Tensor, labels: Tensor, beside: Beside) -> Tensor:
        """The loss of each item, [..., n]."""
        known = ~labels.isnan()
        cells = self.cells(logits, 2 * labels.nan_to_num(0.5) - 1, beside) * known
        return cells.sum(-1) if self.reduction == "sum" else cells.sum(-1) / known.sum(-1).clamp(min=1)

    def cells(self, logits: Tensor, sign: Tensor, beside: Beside) -> Tensor:
        """The loss of each cell, [..., n, k]; `sign` is 1 for a concept that is present, -1 for one that is not."""
        raise NotImplementedError
