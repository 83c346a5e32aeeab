"""What a student is distilled on and how: a regime is data, and one loop (`training.distil`) runs them all."""

from dataclasses import dataclass
from math import ceil

from preflow.distil.divergences import FORWARD_KL, Loss


@dataclass(frozen=True, kw_only=True)
class Regime:
    """Where the responses come from, how many, and for how many updates they are trained on.

    `online` False with `student_share` 0 is the paper's offline data; True with 0 its online teacher data; True with 1
    its online student data (on-policy); between them the mixtures of Agarwal et al. (ICLR 2024).

    Raises
    ------
    ValueError
        A count is not positive, or the share is outside [0, 1].
    """

    name: str
    prompts: int
    generations: int
    """Responses to each prompt."""
    updates: int
    online: bool
    """Whether the responses are drawn anew for each pass over the prompts."""
    student_share: float
    """Chance of a response to come from the student as it then is; the others come from the teacher."""
    loss: Loss = FORWARD_KL

    def __post_init__(self) -> None:
        for field in ("prompts", "generations", "updates"):
            if getattr(self, field) < 1:
                raise ValueError(f"regime {self.name!r} has {field} = {getattr(self, field)}; give at least 1")
        if not 0 <= self.student_share <= 1:
            raise ValueError(f"student_share of regime {self.name!r} is {self.student_share}; give 0 to 1")

    @property
    def size(self) -> int:
        """Responses of a pass over the prompts."""
        return self.prompts * self.generations

    def passes(self, batch_size: int) -> float:
        """How many times the run goes through its responses."""
        return self.updates / -(-self.size // batch_size)

    def teacher_responses(self, batch_size: int) -> int:
        """Responses that the teacher writes or, where the student wrote them, scores."""
        return self.size * (ceil(self.passes(batch_size)) if self.online else 1)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What all regimes share."""

    batch_size: int
    lr: float
    checkpoints: int
    """How many times the distances are measured, at equal numbers of updates, besides once before training."""
    top_k: int | None = None
    """Tokens of a teacher's distribution that are stored for training; None for all of them."""
