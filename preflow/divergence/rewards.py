"""Rewards on response inputs [n, d]: Bradley-Terry, mean and variance, and a rating on five steps."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import softplus

from preflow.divergence.mean_variance import difference, log_bins, with_unstated
from preflow.divergence.schemas import BINS
from preflow.fit import mlp

CLIP = 3.0  # standard deviations, as in the baseline reward model


class Reward(nn.Module):
    """A network on standardised inputs; saved as `model.safetensors` and `config.json`.

    `config` names its kind, the sizes of the network, its settings and, under `inputs`, whatever the caller says of how
    the inputs were made.
    """

    kind: ClassVar[str]
    outputs: ClassVar[int]
    mean: Tensor
    scale: Tensor

    def __init__(self, d: int, *, widths: Sequence[int], seed: int, inputs: dict[str, Any], **settings: float) -> None:
        super().__init__()
        self.config = {"kind": self.kind, "d": d, "widths": [*widths], **settings, "inputs": inputs}
        self.settings = settings
        self.net = mlp(d, *widths, self.outputs, seed=seed)
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("scale", torch.ones(d))

    def standardise_by(self, responses: Tensor) -> None:
        """Take mean and standard deviation of the inputs, [n, d], from these; an input that never differs stays."""
        self.mean, self.scale = responses.mean(0), responses.std(0)
        self.scale[self.scale == 0] = 1.0

    def forward(self, inputs: Tensor) -> Tensor:
        """What the network says of each response, [n, d] -> [n, outputs]."""
        return self.net(((inputs - self.mean) / self.scale).clamp(-CLIP, CLIP))

    def moments(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the reward over annotators, [n] each."""
        raise NotImplementedError

    def share_a(self, a: Tensor, b: Tensor) -> Tensor:
        """Expected share of the annotators for A, [n], a tie counting half."""
        raise NotImplementedError

    def save_pretrained(self, folder: Path) -> None:
        """Write the two files into `folder`, which is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.state_dict(), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")


class BradleyTerry(Reward):
    """One reward per response; its spread is 0, because the model has none."""

    kind = "bradley_terry"
    outputs = 1

    def moments(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The reward, and zeros."""
        reward = self(inputs)[:, 0]
        return reward, torch.zeros_like(reward)

    def share_a(self, a: Tensor, b: Tensor) -> Tensor:
        """sigmoid(r_A - r_B)."""
        return torch.sigmoid(self.moments(a)[0] - self.moments(b)[0])


class DistributionalReward(Reward):
    """A reward that gives the probability of each of the five bins."""

    def log_bins(self, a: Tensor, b: Tensor) -> Tensor:
        """The log P of the five bins for pairs of inputs, [n, 5]."""
        raise NotImplementedError

    def share_a(self, a: Tensor, b: Tensor) -> Tensor:
        """P(a) + P(tie) / 2."""
        p = with_unstated(self.log_bins(a, b)).exp()
        return p[:, 6] + p[:, 2] / 2


class MeanVariance(DistributionalReward):
    """r ~ N(mu, sigma^2) with sigma at least `sigma_floor`; rewards of two responses correlate by `rho`."""

    kind = "mean_variance"
    outputs = 2

    def moments(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mu, and sigma_floor + softplus(raw)."""
        out = self(inputs)
        return out[:, 0], self.settings["sigma_floor"] + softplus(out[:, 1])

    def difference(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of r_A - r_B, [n] each."""
        (mu_a, sigma_a), (mu_b, sigma_b) = self.moments(a), self.moments(b)
        return difference((mu_a, mu_b), (sigma_a, sigma_b), rho=self.settings["rho"])

    def log_bins(self, a: Tensor, b: Tensor) -> Tensor:
        """The normal distribution cut into bins."""
        return log_bins(*self.difference(a, b))


class Rating(DistributionalReward):
    """A distribution over the ratings 0 to 4 per response; A and B are rated independently.

    The difference of two ratings is a tie at 0, slight at 1 and clear from 2 on, as HelpSteer2 derives preferences.
    """

    kind = "rating"
    outputs = len(BINS)

    def moments(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the rating."""
        p, step = self(inputs).softmax(1), torch.arange(self.outputs)
        mu = p @ step.to(p.dtype)
        return mu, (p * (step - mu[:, None]) ** 2).sum(1).clamp(min=0).sqrt()

    def log_bins(self, a: Tensor, b: Tensor) -> Tensor:
        """Every combination of two ratings goes to the bin of its difference."""
        joint = (self(a).log_softmax(1)[:, :, None] + self(b).log_softmax(1)[:, None, :]).flatten(1)
        step = torch.arange(self.outputs)
        bins = (step[:, None] - step[None, :]).clamp(-2, 2).flatten() + 2
        return torch.stack([joint[:, bins == k].logsumexp(1) for k in range(len(BINS))], dim=1)


KINDS: dict[str, type[Reward]] = {cls.kind: cls for cls in (BradleyTerry, MeanVariance, Rating)}


def load_reward(folder: Path) -> Reward:
    """Read what `save_pretrained` wrote.

    Raises
    ------
    ValueError
        The kind of reward is unknown.
    """
    config = json.loads((folder / "config.json").read_text())
    kind = config.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"{folder / 'config.json'} is of kind {kind!r}; known are {sorted(KINDS)}")
    reward = KINDS[kind](config.pop("d"), seed=0, **config)
    reward.load_state_dict(load_file(folder / "model.safetensors"))
    return reward
