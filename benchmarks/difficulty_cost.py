"""What difficulty scoring costs beside the trainings that it needs: `python -m benchmarks.difficulty_cost`.

The claim: at most 10 % more CPU time than its reference runs alone, at the default profile (one evaluation a run).
Beside it the five evaluations of the paper. Needs what `dvc repro read_pairs` makes.
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import typer

from pipelines import ROOT
from pipelines.graph import Graph
from preflow.policies.held_out import held_out_losses
from preflow.policies.study import Study, open_study
from preflow.policies.training import train_on
from preflow.treatments.difficulty import halves
from preflow.treatments.schemas import kept_rows

SEEDS = (1,)


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def train_halves(study: Study, rows: pl.DataFrame) -> None:
    """The reference runs alone."""
    for seed in SEEDS:
        for half in halves(rows["pair_id"].to_list(), seed=seed):
            train_on(study, rows.filter(pl.col("pair_id").is_in(half)).sort("pair_id"), seed=seed)


def main() -> None:
    """Print the ratio for one and for five evaluations."""
    params = Graph(ROOT).params["training"]
    rows = kept_rows(pl.scan_parquet(ROOT / "data/training/untreated_pairs.parquet"), "train")
    policy = ROOT / "models/policy/start_policy"

    def fresh(folder: str) -> Study:
        return open_study(policy, params.recipe.model_dump(), Path(folder), threads=1)

    with TemporaryDirectory() as one:
        study = fresh(one)
        train_halves(study, rows)  # warm: reference log-probabilities are there for all that follows
        alone = cpu_seconds(lambda: train_halves(study, rows))
        for checkpoints in (1, 5):
            spent = cpu_seconds(
                lambda: held_out_losses(study, rows, seeds=SEEDS, checkpoints=checkpoints)  # noqa: B023  (called here)
            )
            typer.echo(
                f"{checkpoints} evaluations a run: {spent:.1f} CPU-s, trainings alone {alone:.1f}: {spent / alone:.2f}"
            )


if __name__ == "__main__":
    typer.run(main)
