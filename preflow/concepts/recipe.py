"""How concept bottlenecks are built and trained.

A sequential bottleneck is published as two trainings, encoder first. Here its head learns beside the encoder from the
predicted concepts, through which no gradient passes: the encoder sees concept labels alone, as in the original.
"""

from dataclasses import dataclass

from preflow.concepts.loss import ConceptLoss
from preflow.concepts.networks import Architecture

MODES = ("joint", "sequential", "independent")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How concept bottlenecks are built and trained."""

    architecture: Architecture
    mode: str
    """joint: L_task + lambda L_concept; sequential: the head learns on predicted concepts; independent: on labels."""
    epochs: int
    batch_size: int
    lr: float
    checkpoints: int
    """Evaluations on validation, evenly over the training; the best one is kept beside the last."""
    intervened: float
    """Share of concepts given while concept embeddings train, .25 in the paper; nothing for plain bottlenecks."""

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.mode not in MODES:
            raise ValueError(f"mode {self.mode!r} is unknown; known are {MODES}")
        if self.architecture.embedding and self.mode != "joint":
            raise ValueError("concept embeddings carry more than concept labels can teach: train them in mode joint")
        if not 0 < self.checkpoints <= self.epochs:
            raise ValueError(
                f"{self.checkpoints} checkpoints do not fit into {self.epochs} epochs; evaluate less often"
            )


@dataclass(frozen=True)
class Setting:
    """A concept loss and its weight, lambda."""

    loss: ConceptLoss
    weight: float
