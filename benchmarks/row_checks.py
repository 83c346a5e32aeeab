"""Rows per CPU-second of the row checks and of the work on exact duplicates: `python -m benchmarks.row_checks`.

The claim: at least 0.3 million rows per CPU-second for all of it together, on 200,000 generated pairs. Counted: the
checks of the texts at ingest, the checks of the schema, the clustering of exact duplicates. Beside them, in no sum:
the SHA-256 ids of the ingest, and the Great Expectations gate on the same table.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import typer

from pipelines.expectations import ephemeral_context, validate
from preflow.audit.duplicates import exact_clusters
from preflow.ingest.canonical import checked, digest, with_hashes
from preflow.schemas import Comparisons

Work = Callable[[], Any]

SENTENCES = 20_000  # distinct ones that the texts are made of
WORDS = 5_000
CASES = [(1, 0.0), (2, 0.0), (4, 0.0), (1, 0.1), (4, 0.1), (1, 0.5), (4, 0.5)]  # pairs to a prompt, duplicates


def generated(rows: int, seed: int, *, pairs_per_prompt: int, duplicates: float) -> pl.DataFrame:
    """Canonical comparisons of about 1,200 characters; the last share of them says the same as one before.

    Words follow Zipf's law, so many responses to a prompt open alike; every fourth sentence ends a paragraph, every
    tenth holds a character beyond ASCII. A duplicate has its sides swapped, other capitals or other white space.
    """
    rng = np.random.default_rng(seed)
    sentences = _sentences(rng)
    originals = rows - int(rows * duplicates)
    prompts = [_text(rng, sentences, 3) for _ in range(0, originals, pairs_per_prompt)]
    texts = [
        (prompts[number // pairs_per_prompt], _text(rng, sentences, 6), _text(rng, sentences, 6))
        for number in range(originals)
    ]
    twists: list[Callable[[str, str, str], tuple[str, str, str]]] = [
        lambda prompt, a, b: (prompt, b, a),
        lambda prompt, a, b: (prompt, a.upper(), b.upper()),
        lambda prompt, a, b: (prompt, a.replace(". ", ".\n"), b + "\n"),
    ]
    copied = rng.choice(originals, size=rows - originals, replace=False)
    texts += [twists[number % 3](*texts[original]) for number, original in enumerate(copied)]
    return _comparisons(texts)


def _sentences(rng: np.random.Generator) -> list[str]:
    words = ["".join(rng.choice(list("etaoinshrdlu"), size=size)) for size in rng.integers(1, 10, WORDS)]
    frequency = 1 / np.arange(1, WORDS + 1)
    drawn = rng.choice(WORDS, size=(SENTENCES, 14), p=frequency / frequency.sum())
    made = [" ".join(words[word] for word in sentence).capitalize() + "." for sentence in drawn]
    return [
        sentence + ("\n\n" if number % 4 == 0 else " ") + ("\u00e9 \u2014 " if number % 10 == 0 else "")
        for number, sentence in enumerate(made)
    ]


def _text(rng: np.random.Generator, sentences: list[str], count: int) -> str:
    return "".join(sentences[number] for number in rng.integers(0, SENTENCES, count)).strip()


def _comparisons(texts: list[tuple[str, str, str]]) -> pl.DataFrame:
    prompts = [prompt for prompt, _, _ in texts]
    stated = {
        "pair_id": [digest(number) for number in range(len(texts))],
        "prompt": [[{"role": "user", "content": prompt}] for prompt in prompts],
        "response_a": [a for _, a, _ in texts],
        "response_b": [b for _, _, b in texts],
        "prompt_group": [digest(prompt) for prompt in prompts],
        "source": ["generated"] * len(texts),
        "source_file": ["generated"] * len(texts),
        "source_line": range(1, len(texts) + 1),
        "flags": [[]] * len(texts),
    }
    schema = Comparisons.create_empty().schema
    missing = [pl.lit(None, dtype=schema[name]).alias(name) for name in schema if name not in stated]
    frame = pl.DataFrame(stated, schema_overrides={name: schema[name] for name in stated})
    return frame.with_columns(missing).select(schema.names())


def cpu_seconds(work: Work) -> float:
    """CPU time of all threads of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def parts(comparisons: pl.DataFrame) -> dict[str, Work]:
    """What is counted, by name."""
    stated = comparisons.with_columns(by_margin=pl.lit(value=False), label=pl.lit(None, dtype=pl.String))
    return {
        "texts": lambda: checked(stated, max_field_chars=100_000, min_score_margin=0.0),
        "schema": lambda: Comparisons.filter(comparisons),
        "duplicates": lambda: exact_clusters(comparisons.lazy()).collect(),
    }


def hashing(comparisons: pl.DataFrame) -> Work:
    """The ids of the same rows, as the ingest makes them."""
    stated = comparisons.with_columns(by_margin=pl.lit(value=False), label=pl.lit(None, dtype=pl.String))
    frame = checked(stated, max_field_chars=100_000, min_score_margin=0.0)
    return lambda: with_hashes(frame)


def measured(work: dict[str, Work], rounds: int) -> dict[str, list[float]]:
    """CPU-seconds of each part in each round, the parts in turn; one round before them is not counted."""
    taken = [{name: cpu_seconds(part) for name, part in work.items()} for _ in range(rounds + 1)]
    return {name: [seconds[name] for seconds in taken[1:]] for name in work}


def gate(comparisons: pl.DataFrame) -> tuple[float, float]:
    """CPU-seconds of importing Great Expectations and of its verdict on the table."""
    imported = cpu_seconds(ephemeral_context)
    frame = comparisons.lazy()
    verdict = cpu_seconds(lambda: validate(frame, Comparisons, name="comparisons", may_be_empty=False))
    return imported, verdict


def show(name: str, rows: int, seconds: list[float]) -> None:
    """One line: the median CPU time, the range, and the rows per CPU-second."""
    middle = statistics.median(seconds)
    spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
    typer.echo(f"  {name:<34} {middle:6.3f} CPU-s ({spread})  {rows / middle / 1e6:6.3f} M rows/CPU-s")


def main(rows: int = 200_000, seed: int = 0, rounds: int = 7) -> None:
    """Print what each part costs, alone and together, for each make-up of the data; then the gate on the first."""
    for pairs_per_prompt, duplicates in CASES:
        comparisons = generated(rows, seed, pairs_per_prompt=pairs_per_prompt, duplicates=duplicates)
        repeated = exact_clusters(comparisons.lazy()).filter(pl.col("n_exact") > 1).collect().height
        typer.echo(f"{pairs_per_prompt} to a prompt, {duplicates:.0%} duplicates ({repeated:,} rows in clusters)")
        taken = measured(parts(comparisons), rounds)
        for name, title in (
            ("texts", "checks of the texts"),
            ("schema", "checks of the schema"),
            ("duplicates", "exact duplicates"),
        ):
            show(title, rows, taken[name])
        show("all of it", rows, [sum(together) for together in zip(*taken.values(), strict=True)])
    comparisons = generated(rows, seed, pairs_per_prompt=1, duplicates=0.0)
    typer.echo("Beside them, not counted:")
    show("SHA-256 ids of the ingest", rows, measured({"ids": hashing(comparisons)}, 3)["ids"])
    imported, verdict = gate(comparisons)
    show("Great Expectations gate", rows, [verdict])
    typer.echo(f"  importing Great Expectations       {imported:6.3f} CPU-s, once a process")


if __name__ == "__main__":
    typer.run(main)
