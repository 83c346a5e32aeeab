"""Files of the published data sets: lines of fields, rows of cells, and images."""

import struct
import warnings
import zlib
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path

import polars as pl
from PIL import Image, ImageOps

from preflow.concepts.schemas import quarantine

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")  # Pillow would start Ghostscript for some others


def text_fields(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    """Lines that are not blank, split at white space: `line` from 1, `raw`, and the first fields as `columns`.

    A column of a short line is null; what follows the last column is ignored.
    """
    line = pl.col("raw").str.strip_chars()
    single = pl.when(line.str.contains(r"\s\s|\t")).then(line.str.replace_all(r"\s+", " ")).otherwise(line)
    fields = single.str.splitn(" ", len(columns) + 1).struct.rename_fields([*columns, "_rest"])
    text = path.read_text(encoding="utf-8-sig", errors="replace").encode()  # polars refuses a file for one bad byte
    lines = pl.read_lines(text, name="raw", row_index_name="line", row_index_offset=1)
    lines = lines.filter(pl.col("raw").str.contains(r"\S"))
    return lines.with_columns(pl.col("line").cast(pl.Int64), fields.alias("f")).unnest("f").drop("_rest")


def listing(root: Path, file: str, columns: tuple[str, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A file with one entry a line under its first column: the good lines, and `ConceptQuarantine` of the others."""
    rows = text_fields(root / file, columns)
    short = pl.any_horizontal(pl.col(column).is_null() for column in columns)
    again = ~pl.col(columns[0]).is_first_distinct()
    reason = pl.when(short).then(pl.lit("short_line")).when(again).then(pl.lit("repeated_entry"))
    rows = rows.with_columns(reason=reason)
    bad = rows.filter(pl.col("reason").is_not_null()).select(
        "line", "reason", "raw", item=pl.lit(None, pl.String), concept=pl.lit(None, pl.String)
    )
    return rows.filter(pl.col("reason").is_null()).select("line", *columns), quarantine(bad, file)


def row_cells(rows: pl.DataFrame, concepts: list[str], *, skip: int, meaning: Mapping[str, bool]) -> pl.DataFrame:
    """The cells of lines with one value for each concept after `skip` fields, as `concept_data` takes them.

    Which value of a line of another length belongs to which concept is not known: all its cells are refused.
    """
    values = pl.col("raw").str.strip_chars().str.replace_all(r"\s+", " ").str.split(" ").list.slice(skip)
    whole = pl.col("text").list.len() == len(concepts)
    blank = pl.lit(pl.Series([[None] * len(concepts)], dtype=pl.List(pl.String))).first()
    cells = rows.with_columns(text=values, concept=pl.lit(pl.Series([concepts])).first()).with_columns(
        text=pl.when(whole).then("text").otherwise(blank), raw=pl.when(~whole).then("raw"),
        reason=pl.when(~whole).then(pl.lit("wrong_number_of_values")),
    )  # fmt: skip
    value = pl.col("text").replace_strict(meaning, default=None, return_dtype=pl.Boolean)
    return cells.explode("concept", "text").with_columns(
        value=value, certainty=pl.lit(None, pl.Int8), probability=value.cast(pl.Float64),
        annotator=pl.lit(None, pl.String), raw=pl.coalesce("raw", "text"),
        reason=pl.coalesce("reason", pl.when(value.is_null()).then(pl.lit("value_not_binary"))),
    ).drop("text")  # fmt: skip


def read_images(root: Path, names: Iterable[str], *, side: int) -> pl.DataFrame:
    """`image`, PNG bytes [side, side, 3], and `reason`, null or why there is none, of files in a folder, by name."""
    root = root.resolve()
    read = [_read_image(root, name, side) for name in names]
    return pl.DataFrame(read, schema={"image": pl.Binary, "reason": pl.String}, orient="row")


def _read_image(root: Path, name: str, side: int) -> tuple[bytes | None, str | None]:
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            return None, "image_outside_folder"
        if not path.is_file():
            return None, "missing_image_file"
    except (OSError, ValueError):  # a name that no file can have
        return None, "missing_image_file"
    return thumbnail(path, side)


def thumbnail(path: Path, side: int) -> tuple[bytes | None, str | None]:
    """An image as PNG bytes, RGB, the middle square scaled to [side, side]; or None and why it was refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                square = ImageOps.fit(image.convert("RGB"), (side, side), Image.Resampling.BILINEAR)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None, "image_too_large"
    except (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error):  # what Pillow's decoders raise
        return None, "undecodable_image"
    png = BytesIO()
    square.save(png, "PNG")
    return png.getvalue(), None
