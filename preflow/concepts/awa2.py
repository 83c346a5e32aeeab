"""AwA2 (Xian et al., 2018) as published: 37,322 images of 50 animals, and 85 predicates that hold for whole classes.

Its own splits are of classes, for zero-shot learning; a bottleneck needs every class in training, so images are dealt
70/10/20 within each class. A cell of the class matrix is a cell of each image of the class, and refused as such.
"""

from pathlib import Path

import polars as pl

from preflow.concepts.dealing import dealt_splits
from preflow.concepts.reading import listing, read_images, row_cells, text_fields
from preflow.concepts.schemas import ConceptData, concept_data, quarantine

CELL_FILE, IMAGES = "predicate-matrix-binary.txt", "JPEGImages"


def load_awa2(root: Path, *, seed: int, image_side: int) -> ConceptData:
    """The data set, with images of `image_side` pixels a side."""
    classes, odd_classes = listing(root, "classes.txt", ("number", "label"))
    names, odd_names = listing(root, "predicates.txt", ("number", "concept"))
    files = sorted(path for path in (root / IMAGES).rglob("*") if path.is_file())
    if not files:
        raise ValueError(f"{root / IMAGES} has no images; unpack AwA2-data.zip, which has them, beside classes.txt")
    found = pl.DataFrame(
        {"name": [path.relative_to(root / IMAGES).as_posix() for path in files]}, schema={"name": pl.String}
    ).with_columns(label=pl.col("name").str.split("/").list.first(), line=pl.lit(None, pl.Int64), key="name")
    known = pl.col("label").is_in(classes["label"].implode())
    stray = found.filter(~known).with_columns(
        item="name", concept=pl.lit(None, pl.String), reason=pl.lit("unknown_class"), raw="name"
    )
    items = _items(root, found.filter(known), image_side, seed)
    cells = class_predicates(root, classes["label"].to_list(), names["concept"].to_list())
    of_image = items.select("label", item="key").join(cells, on="label", maintain_order="left")
    concepts = names.select(
        "concept", group=pl.lit(None, pl.String), level=pl.lit("class"), description=pl.lit(None, pl.String)
    )
    return concept_data(
        "AwA2", items, concepts, of_image, item_file=IMAGES, cell_file=CELL_FILE,
        refused=pl.concat([odd_classes, odd_names, quarantine(stray, IMAGES)]), left_out=0,
    )  # fmt: skip


def class_predicates(root: Path, classes: list[str], predicates: list[str]) -> pl.DataFrame:
    """Every value of the matrix as a cell with its `label`; row i is class i.

    Raises
    ------
    ValueError
        The matrix has not one row a class.
    """
    rows = text_fields(root / CELL_FILE, ())
    if len(rows) != len(classes):
        raise ValueError(
            f"{root / CELL_FILE} has {len(rows)} rows for {len(classes)} classes; each class needs its row"
        )
    labelled = rows.with_columns(label=pl.Series(classes, dtype=pl.String))
    return row_cells(labelled, predicates, skip=0, meaning={"0": False, "1": True})


def _items(root: Path, found: pl.DataFrame, side: int, seed: int) -> pl.DataFrame:
    """Images of known classes as `concept_data` takes them."""
    items = found.with_columns(
        read_images(root, IMAGES + "/" + found["name"], side=side), features=pl.lit(None, pl.List(pl.Float32))
    )
    good = items.filter(pl.col("reason").is_null())
    good = good.with_columns(dealt_splits(good["label"], seed=seed))
    return pl.concat([good, items.filter(pl.col("reason").is_not_null())], how="diagonal")
