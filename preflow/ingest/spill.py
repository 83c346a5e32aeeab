"""Tables larger than memory: written to numbered parquet files as they grow, scanned when they are complete."""

from pathlib import Path

import dataframely as dy
import polars as pl


class Spill:
    """A growing table of one schema; every part is validated before it is written."""

    def __init__(self, schema: type[dy.Schema], folder: Path) -> None:
        self._schema = schema
        self._folder = folder
        self._files: list[Path] = []
        folder.mkdir(parents=True)

    def append(self, rows: pl.DataFrame) -> None:
        """Add rows. Raises dataframely's ValidationError if they do not conform to the schema."""
        if rows.height:
            self._files.append(self._folder / f"{len(self._files):06}.parquet")
            self._schema.validate(rows).write_parquet(self._files[-1])

    def append_tuples(self, rows: list[tuple[object, ...]]) -> None:
        """Add rows given as values in the order of the schema's columns."""
        self.append(pl.DataFrame(rows, schema=self._schema.create_empty().schema, orient="row"))

    def scan(self) -> pl.LazyFrame:
        """All rows in the order they were added; the files must outlive the frame."""
        return pl.scan_parquet(self._files) if self._files else self._schema.create_empty().lazy()
