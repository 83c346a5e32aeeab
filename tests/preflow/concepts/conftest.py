"""Folders of the published shapes, with the irregularities they are known for."""

from pathlib import Path

import numpy as np
import polars as pl

from preflow.concepts.digits import grey_png
from preflow.concepts.schemas import ConceptItems, ConceptLabels, ConceptQuarantine, Concepts

IMAGE = grey_png(np.eye(3))


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def lines(rows) -> str:
    return "".join(f"{row}\n" for row in rows)


def check(data):
    """Every table is as declared, and every cell is accounted for once."""
    ConceptItems.validate(data.items)
    Concepts.validate(data.concepts)
    ConceptLabels.validate(data.labels)
    ConceptQuarantine.validate(data.quarantine)
    assert set(data.labels["item_id"]) <= set(data.items["item_id"])
    assert set(data.labels["concept"]) <= set(data.concepts["concept"])
    refused = data.quarantine.filter(pl.col("source_file") == data.cell_file).height
    assert len(data.labels) + refused + data.left_out == data.cells
    return data


def refusals(data, *columns):
    """Rows of the quarantine, as sets of the columns."""
    return set(data.quarantine.select(columns).iter_rows())


def stated(data):
    """Value of each cell by item name and concept."""
    named = data.labels.join(data.items.select("item_id", "name"), on="item_id")
    return {(name, concept): value for name, concept, value in named.select("name", "concept", "value").iter_rows()}


def splits_of(data):
    return dict(data.items.select("name", pl.col("split").cast(pl.String)).iter_rows())
