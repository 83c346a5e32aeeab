"""CelebA (Liu et al., 2015) as published: 202,599 faces, 40 binary attributes, its own train, validation and test.

CelebA has no class that its attributes explain. Espinosa Zarlenga et al. (2022) make one, in their code: the attributes
whose frequency is nearest one half are concepts, the next ones are hidden from the model, and the label is the binary
code of both, 6 + 2 attributes or at most 256 classes, of one image in 12. They deal the images into new splits; here
the published ones stay. Without a code the label is the identity of the person.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from preflow.concepts.reading import listing, read_images, row_cells, text_fields
from preflow.concepts.schemas import ConceptData, concept_data, quarantine

CELL_FILE, PARTITION, IDENTITY = "list_attr_celeba.txt", "list_eval_partition.txt", "identity_CelebA.txt"
PARTS = {"0": "train", "1": "validation", "2": "test"}


@dataclass(frozen=True)
class Code:
    """Classes made of attributes."""

    concepts: int
    """Attributes that are concepts; 6 in the paper."""
    hidden: int
    """Further attributes in the label only; 2 in the paper."""


@dataclass(frozen=True)
class CelebaFiles:
    """Where the parts of the data set are: all in one folder, or as the authors' drive has them."""

    root: Path
    cells: str
    partition: str
    identity: str
    images: str


def celeba_files(root: Path) -> CelebaFiles:
    """The files below the data set's folder."""
    if (root / CELL_FILE).is_file():
        return CelebaFiles(root, CELL_FILE, PARTITION, IDENTITY, "img_align_celeba")
    return CelebaFiles(root, f"Anno/{CELL_FILE}", f"Eval/{PARTITION}", f"Anno/{IDENTITY}", "Img/img_align_celeba")


def load_celeba(root: Path, *, seed: int, image_side: int, code: Code | None, one_in: int) -> ConceptData:
    """The data set.

    Parameters
    ----------
    image_side
        Side of the images in pixels; 64 in the paper.
    code
        How classes are made of attributes; None: the identities.
    one_in
        Take one image in so many, drawn from `seed`; 12 in the paper.
    """
    files = celeba_files(root)
    cells, names, refused = face_attributes(files)
    good = cells.filter(pl.col("reason").is_null())
    parts, odd = listing(root, files.partition, ("key", "part"))
    if code is None:
        shown, (labels, odd_labels) = names, listing(root, files.identity, ("key", "label"))
        refused = pl.concat([refused, odd_labels])
    else:
        shown, hidden = coded_attributes(good, names, code)
        labels = binary_codes(good, [*shown, *hidden])
    items = parts.join(labels.select("key", "label"), on="key", how="left", maintain_order="left")
    taken = _taken(items, image_side, files, seed=seed, one_in=one_in)
    unlisted = ~pl.col("item").is_in(items["key"].implode())
    asked = pl.col("item").is_in(taken["key"].implode()) & pl.col("concept").is_in(shown)
    kept = cells.filter(pl.col("reason").is_not_null() | unlisted | asked)
    concepts = pl.DataFrame({"concept": shown})
    return concept_data(
        "CelebA", taken,
        concepts.with_columns(group=pl.lit(None, pl.String), level=pl.lit("item"), description=pl.lit(None, pl.String)),
        kept, item_file=files.partition, cell_file=files.cells, refused=pl.concat([refused, odd]),
        left_out=len(cells) - len(kept),
    )  # fmt: skip


def face_attributes(files: CelebaFiles) -> tuple[pl.DataFrame, list[str], pl.DataFrame]:
    """Every value of the attribute file as a cell, the attributes' names, and a wrong count as `ConceptQuarantine`.

    Raises
    ------
    ValueError
        The second line has no names.
    """
    path = files.root / files.cells
    lines = text_fields(path, ("item",))
    names = lines.filter(pl.col("line") == 2)["raw"].str.strip_chars().str.split(" ").explode().to_list()
    names = [name for name in names if name]
    if not names:
        raise ValueError(f"{path} must name the attributes in its second line")
    faces = lines.filter(pl.col("line") > 2)
    stated = lines.filter(pl.col("line") == 1).with_columns(
        item=pl.lit(None, pl.String), concept=pl.lit(None, pl.String), reason=pl.lit("wrong_count_of_images")
    )
    wrong = stated.filter(pl.col("raw").str.strip_chars() != str(len(faces)))
    cells = row_cells(faces, names, skip=1, meaning={"-1": False, "1": True})
    return cells, names, quarantine(wrong, f"{files.cells} (count)")


def coded_attributes(cells: pl.DataFrame, names: list[str], code: Code) -> tuple[list[str], list[str]]:
    """The attributes whose frequency is nearest one half, and the hidden ones that follow; each in the file's order."""
    frequency = dict(cells.group_by("concept").agg(pl.col("value").mean()).iter_rows())
    nearest = sorted(names, key=lambda name: abs(frequency.get(name, 0.0) - 0.5))
    shown, hidden = nearest[: code.concepts], nearest[code.concepts : code.concepts + code.hidden]
    return sorted(shown, key=names.index), sorted(hidden, key=names.index)


def binary_codes(cells: pl.DataFrame, attributes: list[str]) -> pl.DataFrame:
    """`key`, `label`: the values of the attributes as binary digits; an image that lacks one is absent."""
    asked = cells.filter(pl.col("concept").is_in(attributes)).unique(
        ["item", "concept"], keep="first", maintain_order=True
    )
    wide = asked.pivot("concept", index="item", values="value", maintain_order=True).drop_nulls(attributes)
    digits = (pl.col(name).cast(pl.Int8).cast(pl.String) for name in attributes)
    return wide.select(key="item", label=pl.concat_str(*digits))


def _taken(items: pl.DataFrame, side: int, files: CelebaFiles, *, seed: int, one_in: int) -> pl.DataFrame:
    """The images drawn, as `concept_data` takes them."""
    rows = np.random.default_rng(seed).choice(len(items), len(items) // one_in, replace=False)
    items = items[np.sort(rows)].with_columns(split=pl.col("part").replace_strict(PARTS, default=None), name="key")
    images = read_images(files.root, (f"{files.images}/{name}" for name in items["name"]), side=side)
    unlabelled = pl.when(pl.col("label").is_null()).then(pl.lit("no_label"))
    unsplit = pl.when(pl.col("split").is_null()).then(pl.lit("unknown_split"))
    items = items.with_columns(images, features=pl.lit(None, pl.List(pl.Float32)))
    return items.with_columns(reason=pl.coalesce(unlabelled, unsplit, "reason"))
