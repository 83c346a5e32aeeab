"""The kind of an asset decides the file it becomes."""

from pathlib import Path
from typing import NamedTuple


class Kind(NamedTuple):
    """Where assets of a kind stand, and whether git (not DVC's cache) keeps their content."""

    folder: str
    suffix: str
    in_git: bool = False
    grouped: bool = True


KINDS = {
    "table": Kind("data", ".parquet"),
    "dataset": Kind("data", ""),
    "model": Kind("models", ""),
    "metrics": Kind("metrics", ".json", in_git=True),
    "plot": Kind("plots", ".svg", in_git=True),
    "page": Kind("reports", ".html", grouped=False),
    "site": Kind("reports", "", grouped=False),
}


def path_of(kind: str, group: str, asset: str) -> Path:
    """Path of an asset below the project root, for example `data/audit/splits.parquet`."""
    folder, suffix, _, grouped = KINDS[kind]
    return Path(folder, group if grouped else "", asset + suffix)


def verdict_path(table: Path) -> Path:
    """Where the validation result of a table stands: beside it, an output of the same stage."""
    return table.with_suffix(".validation.json")


def refused_path(table: Path) -> Path:
    """Folder that keeps the data that failed its gate, and why, until a good version replaces it."""
    return table.with_suffix(".refused")
