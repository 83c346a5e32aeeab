"""What all trainings of a study share: the start policy, the recipe, and where what was computed is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from preflow.lm.reference import weights_key
from preflow.policies.policy import Policy, load_policy
from preflow.policies.recipe import Recipe
from preflow.store import ArrayStore, content_key


@dataclass(frozen=True)
class Study:
    """A start policy, and how policies are trained from it."""

    policy: Policy
    """The start policy; nothing changes it."""
    recipe: Recipe
    folder: Path
    """Keeps log-probabilities, losses and checkpoints from one run to the next."""

    @cached_property
    def weights(self) -> str:
        """Name of the start policy's weights."""
        return weights_key(self.policy.model)

    @cached_property
    def logprobs(self) -> ArrayStore:
        """Log-probabilities under the start policy."""
        return ArrayStore(self.folder / "logprobs")

    @cached_property
    def losses(self) -> ArrayStore:
        """Held-out losses of finished reference runs."""
        return ArrayStore(self.folder / "losses")

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints, one folder a training."""
        return self.folder / "checkpoints"

    @property
    def name(self) -> str:
        """A hash of the start policy and the recipe: a ranking of pairs belongs to both."""
        return content_key("study", self.weights, repr(self.recipe))


def open_study(start_policy: Path, recipe: Mapping[str, Any], folder: Path, *, threads: int) -> Study:
    """The study of the policy saved in `start_policy`, on so many CPU threads. `recipe`: see `Recipe`."""
    torch.set_num_threads(threads)
    return Study(load_policy(start_policy, chat_template=None), Recipe(**recipe), folder)
