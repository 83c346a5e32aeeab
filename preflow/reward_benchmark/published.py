"""A folder of published benchmark files into one table; rows that do not fit are refused with place and reason.

Which benchmark a record is of, is seen from its fields: `preflow.reward_benchmark.shapes`.
"""

from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from preflow.reward_benchmark.schemas import BenchmarkItems
from preflow.reward_benchmark.shapes import Refused, Row, Unit, units
from preflow.sources.readers import is_data_file, read_file
from preflow.sources.records import Refusal

KEY = ("file", "line", "part")
_CONTENT = ("benchmark", "part", "subset", "group", "chosen", "rejected")


class Read(NamedTuple):
    """What a folder of benchmark files gave."""

    items: pl.DataFrame
    """`BenchmarkItems`, sorted by benchmark, file, line and part."""
    refused: list[dict[str, Any]]
    """file, line and reason of each row that was refused."""


def read_benchmarks(folder: Path) -> Read:
    """All data files below the folder, in order of name; what another file has already said is refused.

    Repeats within a file, and pairs of one text, are kept: the authors count them.

    Raises OSError if a file cannot be opened.
    """
    rows: list[Row] = []
    refused: list[dict[str, Any]] = []
    seen: dict[tuple[Any, ...], tuple[str, int]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and is_data_file(path.name)):
        name = path.relative_to(folder).as_posix()
        found, bad = _file(path, name)
        for line, parts in found:
            content = tuple((part["prompt"][0]["content"], *(part[key] for key in _content(part))) for part in parts)
            first_file, first_line = seen.setdefault(content, (name, line))
            if first_file == name:
                rows += [part | {"file": name, "line": line} for part in parts]
            else:
                bad.append((line, f"repeats line {first_line} of {first_file}"))
        refused += [{"file": name, "line": line, "reason": reason} for line, reason in sorted(bad)]
    table = pl.DataFrame(rows, schema=BenchmarkItems.create_empty().schema)
    return Read(BenchmarkItems.cast(table.sort("benchmark", *KEY)), refused)


def _content(part: Row) -> tuple[str, ...]:
    """The columns by which two comparisons are the same; the part of HelpSteer is a line, which says nothing."""
    return _CONTENT if part["benchmark"] == "rm_bench" else tuple(key for key in _CONTENT if key != "part")


def _file(path: Path, name: str) -> tuple[list[Unit], list[Refused]]:
    records, broken = [], []
    for item in read_file(path, name):
        if isinstance(item, Refusal):
            broken.append((item.line, item.reason))
        else:
            records.append((item.line, item.value))
    found, bad = units(records)
    return found, broken + bad
