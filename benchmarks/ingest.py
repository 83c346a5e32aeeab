"""Rows per second and peak memory of the ingest: `python -m benchmarks.ingest` (1,000,000 pairs of jsonl by default).

The claim: 1,000,000 pairs within 4 GiB of resident memory.
"""

import json
import random
import resource
import tempfile
import time
from pathlib import Path

import typer

from preflow.ingest.intake import ingest

WORDS = [f"w{number:04}" for number in range(5_000)]


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


def main(rows: int = 1_000_000, seed: int = 0) -> None:
    """Generate the pairs, ingest them, collect nothing but the counts, and print what it cost."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.jsonl"
        write_pairs(path, rows, seed)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, cpu = time.perf_counter(), time.process_time()
        ingested = ingest(
            path,
            formats={},
            hub=[],
            max_field_chars=100_000,
            min_score_margin=0.0,
            scratch=Path(folder) / "scratch",
        )
        ingested.comparisons.sink_parquet(Path(folder) / "comparisons.parquet")
        ingested.votes.sink_parquet(Path(folder) / "votes.parquet")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = path.stat().st_size
    counted = {name: ingested.counts[name] for name in ("rows_in", "rows_kept", "rows_quarantined", "rows_merged")}
    typer.echo(f"{counted}, {size / 2**30:.2f} GiB of jsonl")
    typer.echo(f"{rows / wall:,.0f} rows/s, {rows / cpu:,.0f} rows per CPU-second, {wall:.1f} s")
    typer.echo(f"peak resident memory {peak / 2**20:.2f} GiB ({before / 2**20:.2f} GiB before the ingest)")


if __name__ == "__main__":
    typer.run(main)
