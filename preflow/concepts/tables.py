"""A table of features or a folder of images, with a table of concepts; and what the published sets read the same way.

The folder holds `concepts` and either `items` (both csv or parquet) or `images/CLASS/FILE`. `items` has `name`,
`label`, perhaps `split`, and either `image` (a path in the folder) or one column a feature. `concepts` has `name` and a
column of 0 and 1 for each concept (empty: not labelled), or is long: `name`, `concept`, `value`, perhaps `certainty`
and `annotator`. Without splits, items are dealt 70/10/20 within each class, as the paper has it.
"""

from pathlib import Path

import polars as pl

from preflow.concepts.dealing import dealt_splits
from preflow.concepts.reading import read_images
from preflow.concepts.schemas import ConceptData, concept_data, quarantine
from preflow.schemas import SPLITS

TRUTH = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
BLANK = ("", "na", "nan", "null", "none")


def load_table(root: Path, *, seed: int, image_side: int) -> ConceptData:
    """The folder described above. `image_side` is the side of images in pixels.

    Raises
    ------
    ValueError
        A file is missing, or has not the columns named above.
    """
    concept_file = _only(root, "concepts")
    items, item_file, refused = _items(root, image_side)
    kept = items["reason"].is_null()
    if "split" not in items.columns:
        splits = dealt_splits(items.filter(kept)["label"], seed=seed)
        items = pl.concat([items.filter(kept).with_columns(splits), items.filter(~kept)], how="diagonal")
    cells = _cells(_read(root / concept_file, required=("name",)))
    names = cells["concept"].drop_nulls().unique(maintain_order=True)
    concepts = pl.DataFrame({"concept": names}).with_columns(
        group=pl.lit(None, pl.String), level=pl.lit("item"), description=pl.lit(None, pl.String)
    )
    return concept_data(
        root.resolve().name, items, concepts, cells,
        item_file=item_file, cell_file=concept_file, refused=refused, left_out=0,
    )  # fmt: skip


def soft_label(value: pl.Expr, certainty: pl.Expr) -> pl.Expr:
    """P(present) by the annotator's certainty (Koh et al., 2020, their code); 0 or 1 where none is known.

    Present: 0, .5, .75, 1 for certainty 1 to 4; absent: 0, .5, .25, 0.
    """
    hard = value.cast(pl.Float64)
    by_certainty = {1: pl.lit(0.0), 2: pl.lit(0.5), 3: 0.25 + 0.5 * hard}
    return pl.coalesce(*(pl.when(certainty == level).then(soft) for level, soft in by_certainty.items()), hard)


def _only(root: Path, stem: str) -> str:
    found = [f"{stem}.{ending}" for ending in ("csv", "parquet") if (root / f"{stem}.{ending}").is_file()]
    if len(found) != 1:
        raise ValueError(f"{root} must have {stem}.csv or {stem}.parquet, one of them; it has {found or 'neither'}")
    return found[0]


def _read(path: Path, *, required: tuple[str, ...]) -> pl.DataFrame:
    """A table, of a csv all as text, with `line`: of the csv, or row of the parquet, from 1."""
    is_csv = path.suffix == ".csv"
    try:
        table = pl.read_csv(path, infer_schema=False, encoding="utf8-lossy") if is_csv else pl.read_parquet(path)
    except pl.exceptions.ComputeError as error:
        raise ValueError(f"{path}: a line has more fields than its header, or is no csv or parquet: {error}") from error
    if missing := [name for name in required if name not in table.columns]:
        raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(table.columns)}")
    return table.with_row_index("line", offset=2 if is_csv else 1).with_columns(pl.col("line").cast(pl.Int64))


def _items(root: Path, side: int) -> tuple[pl.DataFrame, str, pl.DataFrame]:
    """Items as `concept_data` takes them, perhaps without splits; where they stand; repeated ones as refused."""
    if (root / "images").is_dir() and not any((root / f"items.{ending}").is_file() for ending in ("csv", "parquet")):
        files = sorted(path for path in (root / "images").rglob("*") if path.is_file())
        names = [path.relative_to(root / "images").as_posix() for path in files]
        table = pl.DataFrame({"name": names, "label": [name.partition("/")[0] for name in names]})
        table = table.with_columns(line=pl.lit(None, pl.Int64), image="images/" + pl.col("name"))
        file = "images"
    else:
        file = _only(root, "items")
        table = _read(root / file, required=("name", "label"))
    table = table.with_columns(pl.col("name", "label").cast(pl.String))
    return _unique_items(_seen(root, table, side), file)


def _seen(root: Path, table: pl.DataFrame, side: int) -> pl.DataFrame:
    """Items with `features`, `image` and `reason` in place of the columns that the file has for them."""
    about = [name for name in ("line", "name", "label", "split") if name in table.columns]
    if "image" in table.columns:
        images = read_images(root, table["image"].cast(pl.String).fill_null(""), side=side)
        return table.select(about).with_columns(images, features=pl.lit(None, pl.List(pl.Float32)))
    numbers = table.select(pl.exclude(about).cast(pl.Float32, strict=False))
    if numbers.width == 0:
        raise ValueError(f"{root}: items have neither an image nor a column of features")
    finite = numbers.select(pl.all_horizontal(pl.all().is_finite().fill_null(value=False))).to_series()
    features = numbers.select(pl.concat_list(pl.all())).to_series()
    reason = pl.when(~finite).then(pl.lit("feature_not_a_finite_number"))
    return table.select(about).with_columns(features.alias("features"), reason=reason, image=pl.lit(None, pl.Binary))


def _unique_items(items: pl.DataFrame, file: str) -> tuple[pl.DataFrame, str, pl.DataFrame]:
    unnamed = pl.when(pl.col("label").is_null()).then(pl.lit("no_label"))
    odd = pl.lit(None, pl.String)
    if "split" in items.columns:
        odd = pl.when(~pl.col("split").is_in(SPLITS).fill_null(value=False)).then(pl.lit("unknown_split"))
    items = items.with_columns(key="name", reason=pl.coalesce(unnamed, odd, "reason"))
    named, first = pl.col("name").is_not_null(), pl.col("name").is_first_distinct()
    why = pl.when(named).then(pl.lit("repeated_entry")).otherwise(pl.lit("no_name"))
    bad = items.filter(~(named & first)).with_columns(
        reason=why, item="name", raw="name", concept=pl.lit(None, pl.String)
    )
    return items.filter(named & first), file, quarantine(bad, file)


def _cells(table: pl.DataFrame) -> pl.DataFrame:
    """Cells as `concept_data` takes them, of a wide or a long table of concepts."""
    if not {"concept", "value"} <= set(table.columns):
        table = table.unpivot(index=["line", "name"], variable_name="concept", value_name="value")
    absent = [name for name in ("certainty", "annotator") if name not in table.columns]
    table = table.with_columns(pl.lit(None, pl.String).alias(name) for name in absent)
    text, level = (pl.col(name).cast(pl.String).str.strip_chars().str.to_lowercase() for name in ("value", "certainty"))
    known = text.replace_strict(TRUTH, default=None)
    certainty = level.cast(pl.Float64, strict=False).cast(pl.Int8, strict=False)
    given = ~level.is_in(BLANK).fill_null(value=True)
    reason = (
        pl.when(known.is_null()).then(pl.lit("value_not_binary"))
        .when(pl.col("concept").is_null()).then(pl.lit("no_concept"))
        .when(given & ~certainty.is_between(1, 4).fill_null(value=False)).then(pl.lit("certainty_not_1_to_4"))
    )  # fmt: skip
    labelled = table.filter(~text.is_in(BLANK).fill_null(value=True))
    return labelled.select(
        "line", "concept", item="name", value=known, certainty=certainty, probability=soft_label(known, certainty),
        annotator=pl.col("annotator").cast(pl.String), reason=reason, raw=pl.col("value").cast(pl.String),
    )  # fmt: skip
