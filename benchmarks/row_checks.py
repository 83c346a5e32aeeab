"""Rows per CPU-second of the row checks and of exact-duplicate clustering: `python -m benchmarks.row_checks`.

The claim: at least 0.3 million rows per CPU-second for both together, on 200,000 generated pairs.
"""

import random
import time
from collections.abc import Callable
from typing import Any

import polars as pl
import typer

from preflow.audit.duplicates import exact_clusters
from preflow.ingest.canonical import checked, digest
from preflow.schemas import Comparisons

WORDS = [f"w{number:04}" for number in range(5_000)]


def generated(rows: int, seed: int) -> pl.DataFrame:
    """Canonical comparisons of about 1,200 characters, three to a prompt; one in fifty repeats another in capitals."""
    rng = random.Random(seed)
    texts = [[" ".join(rng.choices(WORDS, k=words)) for words in (40, 80, 80)] for _ in range(rows)]
    prompts = [texts[number - number % 3][0] for number in range(rows)]
    for number in range(50, rows, 50):
        prompts[number] = prompts[number - 1]
        texts[number] = [text.upper() for text in texts[number - 1]]
    frame = pl.DataFrame(
        {
            "pair_id": [digest(number) for number in range(rows)],
            "prompt": [[{"role": "user", "content": prompt}] for prompt in prompts],
            "response_a": [text[1] for text in texts],
            "response_b": [text[2] for text in texts],
            "prompt_group": [digest(prompt) for prompt in prompts],
            "source": ["generated"] * rows,
            "source_file": ["generated"] * rows,
            "source_line": range(1, rows + 1),
            "flags": [[]] * rows,
        },
        schema_overrides=Comparisons.create_empty().schema,
    )
    missing = {name: dtype for name, dtype in Comparisons.create_empty().schema.items() if name not in frame.columns}
    added = frame.with_columns(pl.lit(None, dtype=dtype).alias(name) for name, dtype in missing.items())
    return added.select(Comparisons.column_names())


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of all threads, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main(rows: int = 200_000, seed: int = 0) -> None:
    """Print what each part costs."""
    comparisons = generated(rows, seed)
    Comparisons.filter(comparisons.head(10))  # the first call compiles the rules
    stated = comparisons.with_columns(by_margin=pl.lit(value=False), label=pl.lit(None, dtype=pl.String))
    checked(stated.head(10), max_field_chars=100_000, min_score_margin=0.0)
    texts, _ = cpu_seconds(lambda: checked(stated, max_field_chars=100_000, min_score_margin=0.0))
    checks, (good, _) = cpu_seconds(lambda: Comparisons.filter(comparisons))
    clusters, exact = cpu_seconds(lambda: exact_clusters(good.lazy()).collect())
    repeated = exact.filter(pl.col("n_exact") > 1).height
    typer.echo(f"{good.height:,} of {rows:,} rows pass; {repeated:,} stand in an exact cluster with another")
    report("row checks of the schema", rows, checks)
    report("exact duplicates", rows, clusters)
    report("both", rows, checks + clusters)
    report("beside them, the checks of the texts at ingest", rows, texts)


def report(name: str, rows: int, seconds: float) -> None:
    """One line: what it cost and what that makes per second."""
    typer.echo(f"{name}: {seconds:.2f} CPU-seconds, {rows / seconds / 1e6:.2f} million rows per CPU-second")


if __name__ == "__main__":
    typer.run(main)
