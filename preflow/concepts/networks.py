"""Concept bottleneck networks: an encoder to concept logits, a label head on concepts (Koh et al., 2020), embeddings.

The label head is linear in the concept probabilities, or in the concept embeddings (Espinosa Zarlenga et al., 2022): a
positive and a negative vector of each concept, mixed by its probability. Either takes `given`, values that stand in for
predicted ones: an intervention. Networks have parameters and fixed buffers but no other state, so that many train as
one stack.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from preflow.fit import mlp

CLIP = 5.0  # standard deviations of a feature


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """How a concept bottleneck is built."""

    encoder: str
    """mlp (features, or pixels in a row), cnn or resnet34 (images)."""
    widths: Sequence[int]
    """Hidden layers of the mlp; the last, dense layer of the cnn; ignored by resnet34."""
    embedding: int
    """Size of the concept embeddings; 0 for a plain bottleneck of probabilities."""


class Standardised(nn.Module):
    """Inputs in a row, [n, d], minus their mean over their standard deviation, in training data."""

    mean: Tensor
    scale: Tensor

    def __init__(self, d: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("scale", torch.ones(d))

    def forward(self, inputs: Tensor) -> Tensor:
        """Flatten, standardise and clip."""
        return ((inputs.flatten(1) - self.mean) / self.scale).clamp(-CLIP, CLIP)


class Bottleneck(nn.Module):
    """Concept logits, and a linear label head on the concept probabilities or on concept embeddings."""

    def __init__(self, shape: Sequence[int], concepts: int, classes: int, architecture: Architecture) -> None:
        super().__init__()
        self.config = {
            "shape": [*shape],
            "concepts": concepts,
            "classes": classes,
            "architecture": asdict(architecture),
        }
        self.k, self.m = concepts, architecture.embedding
        self.encoder = _encoder(shape, 2 * concepts * self.m if self.m else concepts, architecture)
        if self.m:
            self.score = nn.Linear(2 * self.m, 1)  # one for all concepts, as published
        self.head = nn.Linear(concepts * max(self.m, 1), classes)

    def forward(self, inputs: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """Concept logits [n, k] and label logits [n, classes].

        `given`, [n, k], takes the place of the probabilities; nan leaves the predicted one.
        """
        return self.from_hidden(self.encoder(inputs), given)

    def from_hidden(self, hidden: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
        """As `forward`, from what the encoder made of the inputs."""
        if not self.m:
            return hidden, self.head(torch.where(given.isnan(), torch.sigmoid(hidden), given.nan_to_num()))
        pairs = nn.functional.leaky_relu(hidden.unflatten(-1, (self.k, 2, self.m)))
        logits = self.score(pairs.flatten(-2))[..., 0]
        p = torch.where(given.isnan(), torch.sigmoid(logits), given.nan_to_num())[..., None]
        mixed = p * pairs[..., 0, :] + (1 - p) * pairs[..., 1, :]
        return logits, self.head(mixed.flatten(-2))

    def standardise_by(self, inputs: Tensor) -> None:
        """Take mean and scale of an mlp's inputs from these; one that never differs stays as it is."""
        for part in self.modules():
            if isinstance(part, Standardised):
                flat = inputs.flatten(1)
                scale = flat.std(0)
                part.mean, part.scale = flat.mean(0), torch.where(scale > 0, scale, 1.0)

    def save_pretrained(self, folder: Path, *, about: Mapping[str, Any]) -> None:
        """Write `model.safetensors` and `config.json`; `about` says, as JSON, what it was trained on and how."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.state_dict(), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.config | {"about": about}, indent=2) + "\n")


def build(shape: Sequence[int], concepts: int, classes: int, architecture: Architecture, *, seed: int) -> Bottleneck:
    """A bottleneck for inputs of `shape` (without n), initialised from `seed` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Bottleneck(shape, concepts, classes, architecture)


def load_bottleneck(folder: Path) -> Bottleneck:
    """Read what `save_pretrained` wrote."""
    config = json.loads((folder / "config.json").read_text())
    how = Architecture(**config["architecture"])
    model = build(config["shape"], config["concepts"], config["classes"], how, seed=0)
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model


def _encoder(shape: Sequence[int], outputs: int, architecture: Architecture) -> nn.Module:
    if architecture.encoder == "mlp":
        d = int(torch.Size(shape).numel())
        return nn.Sequential(Standardised(d), mlp(d, *architecture.widths, outputs, seed=torch.initial_seed()))
    if architecture.encoder not in ("cnn", "resnet34"):
        raise ValueError(f"encoder {architecture.encoder!r} is unknown; known are mlp, cnn and resnet34")
    if len(shape) != 3:
        raise ValueError(f"encoder {architecture.encoder} needs images [channels, height, width]; these are {[*shape]}")
    return (_cnn if architecture.encoder == "cnn" else _resnet34)(shape, outputs, architecture)


def _cnn(shape: Sequence[int], outputs: int, architecture: Architecture) -> nn.Module:
    """Two convolutions of 3 x 3, each halved by pooling, and a dense part."""
    channels, height, width = shape
    convolutions = [nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    flat = 32 * (height // 4) * (width // 4)
    return nn.Sequential(
        *convolutions, nn.Flatten(), mlp(flat, *architecture.widths, outputs, seed=torch.initial_seed())
    )


def _resnet34(shape: Sequence[int], outputs: int, architecture: Architecture) -> nn.Module:  # noqa: ARG001
    """A ResNet-34 (He et al., 2016) with group normalisation: batch statistics would mix the items of a batch."""
    if find_spec("torchvision") is None:
        raise ModuleNotFoundError("encoder resnet34 needs torchvision: pip install torchvision, or take the cnn")
    from torchvision.models import resnet34  # an optional package, and seconds to import

    network = resnet34(num_classes=outputs, norm_layer=lambda channels: nn.GroupNorm(32, channels))
    network.conv1 = nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False)
    return network
