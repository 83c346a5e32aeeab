"""One reader per file type. Values come as the file has them: no type is guessed, text stays byte for byte.

A bad line becomes a refusal and the lines after it are still read. A file that breaks off (a truncated gzip, say) gives
the records before the break and one refusal of the file as a whole (line 0). A JSON array in a broken gzip gives no
records, because it is read in one piece.
"""

import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from preflow.sources.records import Record, Refusal
from preflow.sources.strict_json import StrictDecoder

Item = Record | Refusal
BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, pa.ArrowInvalid, pa.ArrowIOError, UnicodeDecodeError)
BATCH = 1_000  # rows of a columnar file that are turned into Python values at once
BOM = b"\xef\xbb\xbf"
ARRAY_START = re.compile(r'\s*(\{\s*"(?:[^"\\]|\\.)*"\s*:\s*)?\[')

csv.field_size_limit(sys.maxsize)  # the module's own limit of 131,072 characters is below real responses


def endings(name: str) -> str:
    """The file type by name, without .gz: '.jsonl' for 'a.jsonl.gz'; '' for a name without one."""
    return Path(name.lower().removesuffix(".gz")).suffix


def is_data_file(name: str) -> bool:
    """Whether a reader for this file name exists."""
    return endings(name) in READERS


def read_file(path: Path, name: str) -> Iterator[Item]:
    """The records of one file in order; `name` is what stands for the file in the tables.

    Raises OSError if the file cannot be opened.
    """
    with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as handle:
        try:
            yield from READERS[endings(path.name)](cast(IO[bytes], handle), name)
        except BROKEN as error:
            yield Refusal(name, 0, "unreadable_file", f"the file cannot be read to its end: {error}", None)


def read_jsonl(handle: IO[bytes], name: str) -> Iterator[Item]:
    """One value per line; blank lines hold nothing."""
    decoder = StrictDecoder()
    for line, raw in enumerate(handle, 1):
        start = raw.removeprefix(BOM) if line == 1 else raw
        if not start.strip():
            continue
        try:
            text = start.decode()
        except UnicodeDecodeError as error:
            yield Refusal(name, line, "invalid_utf8", str(error), start.decode(errors="replace"))
            continue
        value, problem = decoder.line(text)
        yield Refusal(name, line, *problem, _printable(text)) if problem else Record(value, name, line)


def read_json(handle: IO[bytes], name: str) -> Iterator[Item]:
    """An array of values, alone or as the only entry of an object; any other content is read as JSON lines."""
    content = handle.read().removeprefix(BOM)
    text = content.decode(errors="surrogateescape")
    start = ARRAY_START.match(text)
    if start is None:
        yield from read_jsonl(io.BytesIO(content), name)
    else:
        yield from _elements(text, start.end(), name, tail="]}" if start[1] else "]")


def _elements(text: str, position: int, name: str, tail: str) -> Iterator[Item]:
    decoder = StrictDecoder()
    for line in range(1, len(text) + 1):
        position = _solid(text, position)
        if line == 1 and text[position : position + 1] == "]":
            break
        value, end, problem = decoder.value_at(text, position)
        raw = _printable(text[position : end if end >= 0 else None])
        yield Refusal(name, line, *problem, raw) if problem else Record(value, name, line)
        position = _solid(text, end)
        if end < 0 or text[position : position + 1] != ",":
            break
        position += 1
    if position >= 0 and "".join(text[position:].split()) != tail:
        where = f"the array does not end as it should at character {position + 1}"
        yield Refusal(name, 0, "invalid_json", f"{where}; what follows was not read", _printable(text[position:]))


def _solid(text: str, position: int) -> int:
    while 0 <= position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def read_csv(handle: IO[bytes], name: str) -> Iterator[Item]:
    """A header and rows as RFC 4180 has them; every value is a string."""
    with io.TextIOWrapper(handle, encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        rows = csv.reader(text, strict=True)
        header = next(rows, [])
        if len(set(header)) != len(header):
            yield Refusal(name, 0, "duplicate_keys", f"two columns share a name: {header}", None)
            return
        while True:
            line = rows.line_num + 1
            try:
                row = next(rows, None)
            except csv.Error as error:
                yield Refusal(name, line, "invalid_csv", str(error), None)
                continue
            if row is None:
                return
            if row:
                yield _csv_row(header, row, name, line)


def _csv_row(header: list[str], row: list[str], name: str, line: int) -> Item:
    raw = _printable(",".join(row))
    if len(row) != len(header):
        return Refusal(name, line, "wrong_column_count", f"{len(row)} values for {len(header)} columns", raw)
    if raw != ",".join(row):
        return Refusal(name, line, "invalid_utf8", "a byte that is not UTF-8", raw)
    return Record(dict(zip(header, row, strict=True)), name, line)


def read_parquet(handle: IO[bytes], name: str) -> Iterator[Item]:
    """The rows of a parquet file with the types it declares."""
    table = pq.ParquetFile(pa.BufferReader(handle.read()) if isinstance(handle, gzip.GzipFile) else handle)
    return _rows(table.iter_batches(batch_size=BATCH), name)


def read_arrow(handle: IO[bytes], name: str) -> Iterator[Item]:
    """The rows of an Arrow stream, which is what `Dataset.save_to_disk` of `datasets` writes."""
    return _rows(pa.ipc.open_stream(handle), name)


def _rows(batches: Iterator[pa.RecordBatch], name: str) -> Iterator[Item]:
    line = 0
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH):
            for value in batch.slice(start, BATCH).to_pylist():
                line += 1
                yield Record(value, name, line)


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()


READERS: dict[str, Callable[[IO[bytes], str], Iterator[Item]]] = {
    ".jsonl": read_jsonl,
    ".json": read_json,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
}
