"""Items whose concepts are known: a world where classes fix the concepts, and one where each item has its own.

In the class world every class has a random concept vector and x = A c + N(0, 1): the class is a detour to clean
concepts, as in CUB with class-level attributes. In the item world x ~ N(0, I), a concept is whether a random network of
x is above its median, and the class is a code of the first concepts: no class repairs a concept there.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.splits import NoisySplits


@dataclass(frozen=True)
class ConceptWorld:
    """Splits with true concepts, and the number of classes."""

    train: ConceptArrays
    validation: ConceptArrays
    test: ConceptArrays
    classes: int

    def noisy(self, *, rate: float, seed: int) -> NoisySplits:
        """Train and validation with flipped labels; test stays true."""
        noisy = [
            split.with_concepts(flipped(split.concepts, rate=rate, seed=2 * seed + part))
            for part, split in enumerate((self.train, self.validation))
        ]
        return NoisySplits(noisy[0], noisy[1], self.test, self.train.concepts, self.classes)


def class_world(
    sizes: tuple[int, int, int], *, classes: int, concepts: int, inputs: int, scale: float, seed: int
) -> ConceptWorld:
    """A world in which the class fixes the concepts; `scale` is how far, as a standard deviation, one moves an input.

    Raises
    ------
    ValueError
        There are fewer different concept vectors than classes.
    """
    rng = np.random.default_rng(seed)
    vectors = _distinct(rng, classes, concepts)
    weights = rng.normal(size=(concepts, inputs)) * scale
    splits: list[ConceptArrays] = []
    for n in sizes:
        number = rng.integers(classes, size=n)
        x = (vectors[number] - 0.5) @ weights + rng.normal(size=(n, inputs))
        splits.append(_arrays(x, vectors[number], number, f"class-{seed}-{len(splits)}"))
    train, validation, test = splits
    return ConceptWorld(train, validation, test, classes)


def item_world(
    sizes: tuple[int, int, int], *, code: int, concepts: int, inputs: int, hidden: int, seed: int
) -> ConceptWorld:
    """A world in which each item has its own concepts; the first `code` of them, a binary number, are its class."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(inputs, hidden)), rng.normal(size=(hidden, concepts))

    def score(x: np.ndarray) -> np.ndarray:
        return np.tanh(x @ first / np.sqrt(inputs) * 2) @ second

    middle = np.median(score(rng.normal(size=(10_000, inputs))), axis=0)
    splits: list[ConceptArrays] = []
    for n in sizes:
        x = rng.normal(size=(n, inputs))
        c = score(x) > middle
        splits.append(_arrays(x, c, c[:, :code] @ 2 ** np.arange(code), f"item-{seed}-{len(splits)}"))
    train, validation, test = splits
    return ConceptWorld(train, validation, test, 2**code)


def flipped(concepts: Tensor, *, rate: float, seed: int) -> Tensor:
    """The concepts, [n, k], with each cell turned round independently with probability `rate`."""
    draws = torch.rand(concepts.shape, generator=torch.Generator().manual_seed(seed))
    return torch.where(draws < rate, 1 - concepts, concepts)


def _distinct(rng: np.random.Generator, classes: int, concepts: int) -> np.ndarray:
    """Random concept vectors, no two of them equal, each concept present in some and absent in others."""
    if classes > 2**concepts:
        raise ValueError(f"{concepts} concepts tell at most {2**concepts} classes apart, not {classes}; add concepts")
    while True:
        vectors = rng.integers(2, size=(classes, concepts))
        if len(np.unique(vectors, axis=0)) == classes and (vectors.min(0) < vectors.max(0)).all():
            return vectors


def _arrays(x: np.ndarray, concepts: np.ndarray, classes: np.ndarray, name: str) -> ConceptArrays:
    return ConceptArrays(
        [f"{name}-{i:05d}" for i in range(len(x))],
        torch.tensor(x, dtype=torch.float32),
        torch.tensor(concepts, dtype=torch.float32),
        torch.tensor(classes, dtype=torch.int64),
    )
