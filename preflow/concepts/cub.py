"""CUB-200-2011 (Wah et al., 2011) as published: 11,788 images of 200 birds, 312 attributes with their certainty.

Labels are per image and noisy. Koh et al. (2020) replace them by the majority of the class and keep the attributes that
are true in at least ten classes, 112 of 312; `min_classes` does the same. Of an image denoised so, certainty and soft
label stay those of its own annotation, as in their files. Their validation list is not published: here every fifth
training image, within each class, is validation, and majorities are taken over the other four, as they do.
"""

from pathlib import Path

import polars as pl

from preflow.concepts.dealing import dealt
from preflow.concepts.reading import listing, read_images, text_fields
from preflow.concepts.schemas import ConceptData, concept_data
from preflow.concepts.tables import soft_label

CELL_FILE = "attributes/image_attribute_labels.txt"


def load_cub(root: Path, attributes: Path, *, seed: int, image_side: int, min_classes: int | None) -> ConceptData:
    """The data set.

    Parameters
    ----------
    root
        The folder with images.txt.
    attributes
        attributes.txt, which the archive has beside that folder.
    image_side
        Side of the images in pixels.
    min_classes
        Denoise by class and keep the attributes true in so many classes; None keeps every label as annotated.
    """
    items, refused = _items(root, image_side, seed)
    names, odd = listing(attributes.parent, attributes.name, ("number", "concept"))
    cells = image_attributes(root, names)
    kept, concepts = cells, names.select("concept")
    if min_classes is not None:
        voters = items.filter(pl.col("reason").is_null() & (pl.col("split") == "train"))
        by_class = class_attributes(cells, voters, min_classes=min_classes)
        concepts = concepts.join(by_class.select("concept").unique(), on="concept", how="semi", maintain_order="left")
        kept = _denoised(cells, items, by_class)
    concepts = concepts.with_columns(
        group=pl.col("concept").str.split("::").list.first(),
        level=pl.lit("item" if min_classes is None else "class"),
        description=pl.lit(None, pl.String),
    )
    return concept_data(
        "CUB-200-2011",
        items,
        concepts,
        kept,
        item_file="images.txt",
        cell_file=CELL_FILE,
        refused=pl.concat([*refused, odd]),
        left_out=len(cells) - len(kept),
    )


def image_attributes(root: Path, names: pl.DataFrame) -> pl.DataFrame:
    """Every line of image_attribute_labels.txt as a cell, good or not.

    Some lines of the published file have columns between certainty and time; the first four are read.
    """
    rows = text_fields(root / CELL_FILE, ("item", "number", "present", "certain"))
    value = pl.col("present").replace_strict({"0": False, "1": True}, default=None)
    certainty = pl.col("certain").replace_strict({str(i): i for i in range(1, 5)}, default=None, return_dtype=pl.Int8)
    concept = pl.col("number").replace_strict(names["number"], names["concept"], default=None, return_dtype=pl.String)
    rows = rows.with_columns(value=value, certainty=certainty, concept=concept)
    reason = (
        pl.when(pl.col("certain").is_null()).then(pl.lit("short_line"))
        .when(pl.col("concept").is_null()).then(pl.lit("unknown_concept"))
        .when(pl.col("value").is_null()).then(pl.lit("value_not_binary"))
        .when(pl.col("certainty").is_null()).then(pl.lit("certainty_not_1_to_4"))
    )  # fmt: skip
    return rows.select(
        "line", "item", "concept", "value", "certainty", probability=soft_label(pl.col("value"), pl.col("certainty")),
        annotator=pl.lit(None, pl.String), reason=reason, raw="raw",
    )  # fmt: skip


def class_attributes(cells: pl.DataFrame, items: pl.DataFrame, *, min_classes: int) -> pl.DataFrame:
    """`label`, `concept`, `value`: the majority of each class of `items`, for concepts true in enough classes.

    An absent attribute that is not visible has no vote. A tie is true, and so is a class without a vote, as published.
    """
    seen = pl.col("value") | (pl.col("certainty") != 1)
    votes = cells.filter(pl.col("reason").is_null()).join(items.select("label", item="key"), on="item")
    by_class = votes.group_by("label", "concept").agg(value=2 * (pl.col("value") & seen).sum() >= seen.sum())
    enough = pl.col("value").sum().over("concept") >= min_classes
    return by_class.filter(enough).sort("label", "concept")


def _denoised(cells: pl.DataFrame, items: pl.DataFrame, by_class: pl.DataFrame) -> pl.DataFrame:
    """Cells of the concepts kept, with the label of their class; and every bad cell."""
    labels = items.select("label", item="key")
    of_class = by_class.rename({"value": "of_class"})
    joined = cells.join(labels, on="item", how="left", maintain_order="left").join(
        of_class, on=["label", "concept"], how="left", maintain_order="left"
    )
    asked = pl.col("concept").is_in(by_class["concept"].unique().to_list())
    bad = pl.col("reason").is_not_null() | pl.col("label").is_null()
    return joined.filter(bad | asked.fill_null(value=False)).with_columns(value=pl.coalesce("of_class", "value"))


def with_validation(splits: pl.Series, labels: pl.Series, *, seed: int) -> pl.Series:
    """The splits with every fifth item of train, within each class, in validation instead."""
    train = splits == "train"
    values = splits.to_numpy().astype(object)
    values[train.to_numpy()] = dealt(labels.filter(train), ["train"] * 4 + ["validation"], seed=seed).to_numpy()
    return pl.Series("split", values, dtype=pl.String)


def _items(root: Path, side: int, seed: int) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Images with class and split as `concept_data` takes them, and what was refused of the files that list them."""
    columns = {
        "images.txt": ("key", "name"), "image_class_labels.txt": ("key", "class"), "classes.txt": ("class", "label"),
        "train_test_split.txt": ("key", "is_train"),
    }  # fmt: skip
    read = {file: listing(root, file, names) for file, names in columns.items()}
    images, of_class, classes, split = (
        table.drop("line") if i else table for i, (table, _) in enumerate(read.values())
    )
    items = images
    for table, on in ((of_class, "key"), (classes, "class"), (split, "key")):
        items = items.join(table, on=on, how="left", maintain_order="left")
    part = pl.col("is_train").replace_strict({"0": "test", "1": "train"}, default=None)
    items = items.with_columns(split=part, image_file="images/" + pl.col("name"))
    items = items.with_columns(
        read_images(root, items["image_file"], side=side), features=pl.lit(None, pl.List(pl.Float32))
    )
    unlabelled = pl.when(pl.col("label").is_null()).then(pl.lit("no_label"))
    unsplit = pl.when(pl.col("split").is_null()).then(pl.lit("unknown_split"))
    items = items.with_columns(reason=pl.coalesce(unlabelled, unsplit, "reason"))
    good = items.filter(pl.col("reason").is_null())
    good = good.with_columns(with_validation(good["split"], good["label"], seed=seed))
    return pl.concat([good, items.filter(pl.col("reason").is_not_null())]), [bad for _, bad in read.values()]
