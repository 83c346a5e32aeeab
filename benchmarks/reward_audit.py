"""What the baseline reward pays for on real pairs: `python -m benchmarks.reward_audit ../shared/data/ukpconvarg1`.

The stages up to the baseline reward model with the values of params.yaml, then an audit of 300 of the responses by the
programs that rewrite. Prints the table of docs/reward_audit.md.
"""

import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import typer

from assets.audit import aggregate_votes, deduplicate
from assets.pairs import decide
from assets.reward import fit_baseline, response_embeddings
from pipelines import ROOT
from pipelines.graph import Graph
from preflow.ingest.intake import ingest
from preflow.reward_audit.attributes import attributes_of
from preflow.reward_audit.audit import audited
from preflow.reward_audit.rewrites import by_program, responses_of, rewrites
from preflow.reward_audit.summary import paid_per_doubling
from preflow.reward_models.embedding import EmbeddingScorer

RESPONSES = 300
ATTRIBUTES = ("length", "list", "hedging", "exclamation", "typos", "vowel_first")


def fitted(path: Path, params: dict[str, Any], folder: Path) -> tuple[pl.DataFrame, EmbeddingScorer]:
    """The comparisons of a source, and the baseline reward on them."""
    read = ingest(path, formats={}, hub=[], max_field_chars=100_000, min_score_margin=0.5, scratch=folder / "scratch")
    comparisons, votes = (table.collect().lazy() for table in (read.comparisons, read.votes))
    store = params["reward"].model_copy(update={"store": str(folder / "embeddings")})
    duplicates: Any = deduplicate(comparisons, votes, audit=params["audit"])
    summaries: Any = aggregate_votes(comparisons, votes, audit=params["audit"])
    decided: Any = decide(comparisons, summaries[0], duplicates[2], duplicates[1], pairs=params["pairs"])
    embeddings: Any = response_embeddings(comparisons, reward=store)
    fit: Any = fit_baseline(decided[0], embeddings, reward=store)
    outputs = {out.output_name: out.value for out in fit}
    outputs["baseline_reward_model"].save_pretrained(folder / "model")
    how = {"batch_size": store.batch_size, "max_tokens": store.max_tokens}
    return comparisons.collect(), EmbeddingScorer.load(folder / "model", store=Path(store.store), **how)


def main(source: Path) -> None:
    """Print what the reward pays for."""
    with tempfile.TemporaryDirectory() as folder:
        comparisons, scorer = fitted(source, Graph(ROOT).params, Path(folder))
        responses = responses_of(comparisons, most=RESPONSES, seed=0)
        kinds = attributes_of(ATTRIBUTES, responses["original"].to_list()).values()
        table = pl.concat(rewrites(responses, kind, by_program(kind)) for kind in kinds)
        found = audited(table, {"baseline": scorer})
    columns = ("attribute", "responses with, without", "pays (RATE)", "in sd", "naive", "one rewrite", "band")
    typer.echo(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in found.to_dicts():
        if not row["identified"]:
            typer.echo(f"| {row['attribute']} | {row['n1']}, {row['n0']} | {row['reason']} | | | | |")
            continue
        pays = f"{row['ate']:+.3f} [{row['ate_low']:+.3f}, {row['ate_high']:+.3f}]"
        rest = f"{row['ate_in_sd']:+.2f} | {row['naive']:+.3f} | {row['single']:+.3f} | {row['band']:.3f}"
        typer.echo(f"| {row['attribute']} | {row['n1']}, {row['n0']} | {pays} | {rest} |")
        if row["per_doubling"] is not None:
            typer.echo(f"\n{paid_per_doubling(row)}\n")


if __name__ == "__main__":
    typer.run(main)
