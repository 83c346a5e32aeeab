"""Items, concepts and classes as tensors, for models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
import polars as pl
import torch
from PIL import Image
from torch import Tensor


@dataclass(frozen=True)
class ConceptArrays:
    """Items of one split, in the order of `item_ids`."""

    item_ids: Sequence[str]
    inputs: Tensor
    """Features [n, d], or images [n, channels, height, width] in 0..1; float32."""
    concepts: Tensor
    """1 present, 0 absent, nan unknown, [n, k]; float32."""
    classes: Tensor
    """Number of the class of each item, [n]; int64."""

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, rows: Tensor) -> "ConceptArrays":
        ids = np.asarray(self.item_ids)[rows.numpy()].tolist()
        return ConceptArrays(ids, self.inputs[rows], self.concepts[rows], self.classes[rows])

    def with_concepts(self, concepts: Tensor) -> "ConceptArrays":
        """The same items with other concept labels, [n, k]."""
        return replace(self, concepts=concepts)


def class_names(items: pl.DataFrame) -> list[str]:
    """Classes of all splits in order: the place of a name is its number."""
    return items["label"].unique().sort().to_list()


def concept_arrays(items: pl.DataFrame, labels: pl.DataFrame, concepts: pl.DataFrame, split: str) -> ConceptArrays:
    """The items of a split, sorted by id, with `value` of `labels` for each concept of `concepts`, sorted by name.

    Parameters
    ----------
    items
        `ConceptItems` of every split, which fixes the numbers of the classes.
    labels
        `item_id`, `concept`, `value`: `ConceptLabels`, `NoisyConceptLabels` or `TrueConceptLabels`.

    Raises
    ------
    ValueError
        The split has no item, or its inputs differ in shape or kind.
    """
    part = items.filter(pl.col("split") == split).sort("item_id")
    if part.is_empty():
        raise ValueError(f"split {split!r} has no item; there are {items['split'].unique().sort().to_list()}")
    ids, numbers = part["item_id"].to_list(), {name: i for i, name in enumerate(class_names(items))}
    classes = torch.tensor([numbers[name] for name in part["label"]])
    return ConceptArrays(ids, _inputs(part), _values(ids, labels, concepts["concept"].sort().to_list()), classes)


def _values(ids: list[str], labels: pl.DataFrame, names: list[str]) -> Tensor:
    """Labels as a matrix, [n, k]; a cell without a row is nan."""
    rows = pl.DataFrame({"item_id": ids}).with_row_index("row")
    columns = pl.DataFrame({"concept": names}).with_row_index("column")
    cells = labels.select("item_id", pl.col("concept").cast(pl.String), "value").join(rows, on="item_id")
    cells = cells.join(columns, on="concept").drop_nulls("value")
    values = np.full((len(ids), len(names)), np.nan, dtype=np.float32)
    values[cells["row"].to_numpy(), cells["column"].to_numpy()] = cells["value"].cast(pl.Float32).to_numpy()
    return torch.from_numpy(values)


def _inputs(items: pl.DataFrame) -> Tensor:
    arrays = [
        np.asarray(features, dtype=np.float32) if features is not None else _decoded(image)
        for features, image in items.select("features", "image").iter_rows()
    ]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        example = {array.shape: item_id for item_id, array in zip(items["item_id"], arrays, strict=True)}
        raise ValueError(f"inputs must be of one shape, but items {example} differ; resize images on ingest")
    return torch.from_numpy(np.stack(arrays))


def _decoded(png: bytes) -> np.ndarray:
    """Pixels in 0..1, [channels, height, width]."""
    pixels = np.asarray(Image.open(BytesIO(png)), dtype=np.float32) / 255
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
