"""Time and peak memory of the stage `ingest` on 1,000,000 pairs of jsonl: `python -m benchmarks.ingest`.

The claim: 1,000,000 pairs within 4 GiB of resident memory. The steps are those of the stage: read and check, write the
tables, Great Expectations' verdict on each, the strict check of each schema.
"""

import json
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import typer

from pipelines.expectations import validate
from pipelines.io_manager import write
from preflow.ingest.intake import ingest
from preflow.schemas import Comparisons, Quarantine, Votes

WORDS = [f"w{number:04}" for number in range(5_000)]
TABLES = {"comparisons": Comparisons, "votes": Votes, "quarantine": Quarantine}


def write_pairs(path: Path, rows: int, seed: int) -> None:
    """Labelled pairs of about 1,200 characters, one in fifty a byte-identical duplicate of an earlier one."""
    rng = random.Random(seed)
    earlier: list[str] = []
    with path.open("w", encoding="utf-8") as handle:
        for number in range(rows):
            if earlier and number % 50 == 0:
                handle.write(rng.choice(earlier))
                continue
            prompt, chosen, rejected = (" ".join(rng.choices(WORDS, k=words)) for words in (40, 80, 80))
            line = json.dumps({"prompt": f"{number} {prompt}", "chosen": chosen, "rejected": rejected}) + "\n"
            handle.write(line)
            if number % 1_000 == 1:
                earlier.append(line)


def peak_gib() -> float:
    """The most resident memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@contextmanager
def step(name: str, rows: int) -> Iterator[None]:
    """Prints what a step of the stage cost, and the peak of memory up to its end."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    typer.echo(
        f"  {name:<28} {wall:6.1f} s  {cpu:6.1f} CPU-s  {rows / cpu:9,.0f} rows/CPU-s  peak {peak_gib():.2f} GiB"
    )


def main(rows: int = 1_000_000, seed: int = 0) -> None:
    """Generate the pairs and take them through the stage step by step."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.jsonl"
        write_pairs(path, rows, seed)
        typer.echo(f"{rows:,} pairs, {path.stat().st_size / 2**30:.2f} GiB of jsonl; peak before {peak_gib():.2f} GiB")
        with step("read and check", rows):
            found = ingest(
                path,
                formats={},
                hub=[],
                max_field_chars=100_000,
                min_score_margin=0.0,
                scratch=Path(folder) / "scratch",
            )
        written = {name: Path(folder) / f"{name}.parquet" for name in TABLES}
        with step("write", rows):
            for name, target in written.items():
                write("table", getattr(found, name), target)
        for name, schema in TABLES.items():
            frame = pl.scan_parquet(written[name])
            with step(f"expectations of {name}", rows):
                verdict = validate(frame, schema, name=name, may_be_empty=name == "quarantine")
            with step(f"strict check of {name}", rows):
                schema.validate(frame).select(pl.len()).collect()  # a lazy frame is only checked when it is collected
            typer.echo(f"  {name}: {'passed' if verdict['success'] else 'failed'}")
        counted = {name: found.counts[name] for name in ("rows_in", "rows_kept", "rows_quarantined", "rows_merged")}
        typer.echo(f"  {counted}")


if __name__ == "__main__":
    typer.run(main)
