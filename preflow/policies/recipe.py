"""How policies are trained on pairs: one recipe for every treatment, so that only the data differ."""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from preflow import objectives
from preflow.lm.trainer import Objective

Loss = Literal["dpo", "robust_dpo", "ipo", "simpo"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of `preflow.lm.trainer.train` that all treatments share.

    Raises
    ------
    ValueError
        The loss takes no label smoothing, but there is some.
    """

    loss: Loss
    beta: float
    label_smoothing: float
    """Believed share of wrong labels; for dpo and robust_dpo."""
    target_margin: float
    """For simpo."""
    learning_rate: float
    schedule: str
    warmup_share: float
    epochs: float
    batch_size: int
    micro_batch_size: int
    lora_rank: int | None
    bf16: bool
    max_prompt_tokens: int
    max_response_tokens: int
    max_batch_tokens: int
    """Tokens of a batch without gradients."""

    def __post_init__(self) -> None:
        if self.label_smoothing and self.loss not in SMOOTHED:
            raise ValueError(
                f"{self.loss} takes no label smoothing; set it to 0, or the loss to {' or '.join(SMOOTHED)}"
            )

    @property
    def objective(self) -> Objective:
        """The loss of a pair with its settings fixed."""
        function = getattr(objectives, self.loss)
        settings = {"label_smoothing": self.label_smoothing} if self.loss in SMOOTHED else {}
        settings |= {"target_margin": self.target_margin} if self.loss == "simpo" else {}
        return partial(function, beta=self.beta, **settings)


SMOOTHED = ("dpo", "robust_dpo")
