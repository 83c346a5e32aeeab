"""Peak memory and CPU time of triage on generated tables: `python -m benchmarks.triage --rows 1000000`.

The claim: one million pairs within 4 GiB. The tables are written to parquet and scanned, as the stages do; every pair
has votes, a reward, a predicted divergence and a difficulty, a third diverge, a tenth have duplicates.
"""

# ruff: noqa: E501
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import typer

from preflow.ingest.canonical import digest
from preflow.reasons.schemas import CLASS_OF
from preflow.triage.rules import Thresholds
from preflow.triage.table import Evidence, recommendation_counts, triage

GIB = 2**30
CHUNK = 100_000  # rows made at once, so that the peak is that of triage


def chunk(first: int, n: int, seed: int) -> dict[str, pl.DataFrame]:
    """The tables of `n` pairs by name."""
    rng = np.random.default_rng([seed, first])
    pair = pl.DataFrame({"pair_id": [digest(number) for number in range(first, first + n)]})
    for_a, for_b = (rng.integers(0, 4, n) for _ in "ab")
    label = np.where(for_a == for_b, "tie", np.where(for_a > for_b, "a", "b"))
    share = (for_a + 0.5) / (for_a + for_b + 1)
    diverging = (for_a > 0) & (for_b > 0) & (rng.random(n) < 0.5)
    classes = np.where(diverging, "diverging", "residual")
    reward, spread, loss, doubt = rng.normal(size=n), rng.random(n), rng.exponential(size=n), rng.random(n)
    probability = 1 / (1 + np.exp(-reward))
    place = pl.int_range(pl.len()) % 10
    original = pl.when(place == 1).then(pl.col("pair_id").shift(1)).otherwise("pair_id")
    twice = pl.when(place < 2).then(2).otherwise(1)
    return {
        "comparisons": pair.with_columns(source=pl.lit("generated")),
        "decided": pair.with_columns(
            outcome=pl.Series(np.where(label == "tie", "tie", "pair")), verdict=pl.Series(label), label_source=pl.lit("majority")
        ),
        "vote_summary": pair.with_columns(
            n_votes=pl.Series(for_a + for_b), worker_share_a=pl.Series(share), majority=pl.Series(label), entropy=pl.lit(0.4)
        ),
        "classes": pair.with_columns(
            agreement_class=pl.Series(classes), careful_class=pl.Series(classes), careful_preferred=pl.lit(None, pl.String),
            substantial=pl.lit(value=False),
        ),
        "reasons": pair.filter(pl.Series(diverging)).join(
            pl.DataFrame({"label": list(CLASS_OF)[:2], "source": ["rule", "tagger"], "probability": [None, 0.7]}), how="cross"
        ),
        "groups": pair.filter(pl.Series(diverging & (rng.random(n) < 0.3))).join(
            pl.DataFrame({"cluster": [0, 1], "preferred": ["a", "b"]}), how="cross"
        ),
        "predicted": pair.with_columns(
            opposite_sides=pl.Series(spread / 2), mu_a=pl.Series(reward), mu_b=pl.lit(0.0), sigma_a=pl.Series(spread),
            sigma_b=pl.Series(spread),
        ),
        "rewards": pair.with_columns(
            probability=pl.Series(probability), reward_chosen=pl.Series(reward), reward_rejected=pl.lit(0.0)
        ),
        "difficulty": pair.with_columns(
            difficulty=pl.Series(loss), flip_suspicion=pl.Series(doubt), scored_by=pl.lit("f" * 32)
        ),
        "duplicates": pair.with_columns(exact_cluster=original, near_cluster=original, n_exact=twice, n_near=twice),
        "contradictions": pair.head(n // 100).with_columns(other_pair_id=pair["pair_id"].tail(n // 100), kind=pl.lit("mirrored")),
    }  # fmt: skip


def main(rows: int = 1_000_000, seed: int = 0) -> None:
    """Print the peak resident memory and the CPU time of triage, and what was recommended."""
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, rows, CHUNK):
            for name, table in chunk(first, min(CHUNK, rows - first), seed).items():
                table.write_parquet(Path(folder) / f"{name}-{first}.parquet")
        tables = {name: pl.scan_parquet(f"{folder}/{name}-*.parquet") for name in chunk(0, CHUNK, seed)}
        comparisons, decided = tables.pop("comparisons"), tables.pop("decided")
        before = peak()
        start = time.process_time()
        found = triage(
            comparisons,
            decided,
            Evidence(**tables),
            flip_share=0.1,
            thresholds=Thresholds(relabel=0.8, review=0.5, too_hard=3.0),
        )
        seconds = time.process_time() - start
    typer.echo(
        f"{len(found):,} pairs: peak {peak() / GIB:.2f} GiB (before triage {before / GIB:.2f}), {seconds:.1f} CPU-s"
    )
    for row in recommendation_counts(found.lazy()):
        typer.echo(f"  {row['rule']:<18} {row['recommendation']:<15} {row['pairs']:>9,}")
    if peak() > 4 * GIB:
        raise typer.Exit(1)


def peak() -> int:
    """Bytes of the largest resident set so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    typer.run(main)
