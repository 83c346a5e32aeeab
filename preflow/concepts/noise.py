"""Noise planted in concept labels, with the truth kept aside.

Every model gives each cell of train and validation a chance of being flipped; its mean over the cells of a split is
`rate` for all models, so that they differ only in where the noise falls. Test is never touched. What the cells of a
model weigh against each other:

- uniform: all the same.
- class_conditional: classes have weights from .2 to 1.8, in random order.
- annotator: so have annotators; where none are known, items are dealt to ANNOTATORS of them.
- visibility: 4, 3, 2, 1 for certainty 1 (not visible) to 4 (definitely).
- adversarial: a cell whose flip takes an item's concepts nearer to those of the class most like its own weighs 1,
  others .02, each times the information that its concept has about the class.

The paper (Penaloza et al., 2025) flips uniformly. With `exact`, int(rate * cells) cells of a split are flipped, as the
code of CBM-Noise (NeurIPS 2025) does on train; otherwise each cell by its own chance, independently.
"""

from typing import Literal, get_args

import numpy as np
import polars as pl
from sklearn.metrics import mutual_info_score
from sklearn.neighbors import NearestNeighbors

from preflow.concepts.schemas import NoisyConceptLabels, TrueConceptLabels

NoiseModel = Literal["none", "uniform", "class_conditional", "annotator", "visibility", "adversarial"]
NOISED = ("train", "validation")
ANNOTATORS = 8
LEAST, MOST = 0.2, 1.8  # weights of classes and annotators: a factor of nine between the best and the worst
ASIDE = 0.02  # weight of cells that an adversary gains nothing from: flipped in earnest when the others are used up


def plant_noise(
    items: pl.DataFrame, concepts: pl.DataFrame, labels: pl.DataFrame,
    *, model: NoiseModel, rate: float, exact: bool, seed: int,
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """`NoisyConceptLabels` and `TrueConceptLabels`, both sorted by item and concept.

    Raises
    ------
    ValueError
        The model is unknown, `rate` is not in 0..1, a label is of no given item or concept, or what the model needs
        is missing: certainties for visibility, two classes for adversarial.
    """
    if model not in get_args(NoiseModel) or not 0 <= rate <= 1:
        raise ValueError(f"noise {model!r} at rate {rate}: models are {', '.join(get_args(NoiseModel))}, rates 0 to 1")
    about = items.select("item_id", "label", pl.col("split").cast(pl.String))
    cells = labels.join(about, on="item_id").join(concepts.select("concept"), on="concept")
    if len(cells) != len(labels):
        raise ValueError(
            f"{len(labels) - len(cells)} labels are of no given item or concept; give the tables of one source"
        )
    cells = cells.sort("item_id", "concept").with_row_index("row")
    noised = cells.filter(pl.col("split").is_in(NOISED))
    flipped = np.zeros(len(cells), dtype=bool)
    if model != "none" and rate > 0:
        flipped[noised["row"].to_numpy()] = _flips(
            noised, flip_weights(noised, model=model, seed=seed), rate, exact, seed
        )
    truth = cells.with_columns(flipped=pl.Series(flipped, dtype=pl.Boolean))
    noisy = truth.filter(pl.col("split").is_in(NOISED)).with_columns(value=pl.col("value") ^ pl.col("flipped"))
    return NoisyConceptLabels.cast(noisy), TrueConceptLabels.cast(truth)


def flip_weights(cells: pl.DataFrame, *, model: NoiseModel, seed: int) -> np.ndarray:
    """What the cells weigh against each other, [n], all positive.

    `cells` are `ConceptLabels` with the `label` of their item, of all splits that are noised.
    """
    if model == "uniform":
        return np.ones(len(cells))
    if model == "class_conditional":
        return _spread(cells["label"], seed)
    if model == "annotator":
        return _spread(dealt_annotators(cells, seed=seed), seed)
    return _invisibility(cells) if model == "visibility" else _confusion(cells)


def flip_chances(weights: np.ndarray, rate: float) -> np.ndarray:
    """The chance of each cell, [n], in proportion to its weight as far as chances can go; their mean is `rate`."""
    chances = np.zeros(len(weights))
    certain = np.zeros(len(weights), dtype=bool)
    while not certain.all():
        left = rate * len(weights) - certain.sum()
        chances = np.where(certain, 1.0, left * weights / weights[~certain].sum())
        beyond = (chances > 1) & ~certain
        if not beyond.any():
            break
        certain |= beyond
    return np.minimum(chances, 1.0)


def dealt_annotators(cells: pl.DataFrame, *, seed: int) -> pl.Series:
    """The annotator of each cell as labelled, or, where none is known, one of ANNOTATORS to whom its item is dealt."""
    ids = cells["item_id"].unique().sort()
    names = np.array([f"annotator_{number}" for number in range(ANNOTATORS)])
    dealt = names[np.random.default_rng(seed).permutation(len(ids)) % ANNOTATORS]
    drawn = pl.DataFrame({"item_id": ids, "dealt": dealt})
    return cells.join(drawn, on="item_id", maintain_order="left").select(pl.coalesce("annotator", "dealt")).to_series()


def _flips(cells: pl.DataFrame, weights: np.ndarray, rate: float, exact: bool, seed: int) -> np.ndarray:  # noqa: FBT001
    """Which cells are flipped, [n], split by split."""
    splits, flipped = cells["split"].to_numpy(), np.zeros(len(cells), dtype=bool)
    for part, split in enumerate(NOISED):
        rng, rows = np.random.default_rng([seed, part]), np.flatnonzero(splits == split)
        chances = flip_chances(weights[rows], rate)
        flipped[rows] = _exactly(int(rate * len(rows)), chances, rng) if exact else rng.random(len(rows)) < chances
    return flipped


def _exactly(count: int, chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`count` cells, each with its chance: every whole step of the chances added up in random order (Madow, 1949)."""
    order = rng.permutation(len(chances))
    reached = np.cumsum(chances[order])
    reached *= count / max(reached[-1:].sum(), 1.0e-12)
    reached[-1:] = count
    steps = np.floor(reached + rng.random())
    flipped = np.empty(len(chances), dtype=bool)
    flipped[order] = np.diff(steps, prepend=0) > 0
    return flipped


def _spread(names: pl.Series, seed: int) -> np.ndarray:
    """Weights from LEAST to MOST, evenly, in random order over the distinct names, [n]."""
    distinct = names.unique().sort()
    weights = np.random.default_rng(seed).permutation(np.linspace(LEAST, MOST, len(distinct)))
    return weights[_number(names)]


def _number(names: pl.Series) -> np.ndarray:
    """The place of each name among the distinct ones in order, [n]."""
    return names.rank("dense").to_numpy() - 1


def _invisibility(cells: pl.DataFrame) -> np.ndarray:
    if unknown := cells["certainty"].null_count():
        raise ValueError(
            f"visibility noise needs the certainty of each label, and {unknown} of {len(cells)} have none: "
            "take CUB-200-2011, add a column certainty (1 to 4) to a long concepts.csv, or choose another model"
        )
    return 5.0 - cells["certainty"].to_numpy()


def _confusion(cells: pl.DataFrame) -> np.ndarray:
    """Weights of the adversary, [n]; see above."""
    item_class, concept, value = _number(cells["label"]), _number(cells["concept"]), cells["value"].to_numpy()
    shape = item_class.max() + 1, concept.max() + 1
    if shape[0] < 2:
        raise ValueError("adversarial noise confuses an item's class with another, but the items have one class only")
    present, stated = np.zeros(shape), np.zeros(shape)
    np.add.at(present, (item_class, concept), value)
    np.add.at(stated, (item_class, concept), 1)
    profile = np.where(stated > 0, present / np.maximum(stated, 1), 0.5)
    target = profile[_nearest_other(profile)][item_class, concept] >= 0.5
    information = np.array([mutual_info_score(item_class[concept == k], value[concept == k]) for k in range(shape[1])])
    return np.where(value != target, 1.0, ASIDE) * (information + 1e-3)[concept]


def _nearest_other(profile: np.ndarray) -> np.ndarray:
    """For each class the other one whose concepts, [classes, concepts], are most like its own, [classes]."""
    neighbours = NearestNeighbors(n_neighbors=1, metric="manhattan").fit(profile)
    return neighbours.kneighbors(return_distance=False)[:, 0]  # without given points, a point is not its own neighbour
