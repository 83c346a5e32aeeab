"""What difficulty scoring costs beside the trainings that it needs: `python -m benchmarks.difficulty_cost`.

The claim: at most 10 % more CPU time than its reference runs alone, at the default profile (one evaluation a run).
Beside it the five evaluations of the paper. Needs what `dvc repro read_pairs` makes.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import typer

from pipelines import ROOT
from pipelines.graph import Graph
from preflow.policies.held_out import held_out_losses
from preflow.policies.study import Study, open_study
from preflow.policies.training import examples_of, train_on
from preflow.treatments.difficulty import halves
from preflow.treatments.schemas import kept_rows

SEEDS = (1,)
ROUNDS = 3


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
    """Print the ratios."""
    params = Graph(ROOT).params["training"]
    rows = kept_rows(pl.scan_parquet(ROOT / "data/training/untreated_pairs.parquet"), "train")
    policy = ROOT / "models/policy/start_policy"

    def fresh(folder: str) -> Study:
        return open_study(policy, params.recipe.model_dump(), Path(folder), threads=1)

    least: dict[str, float] = {}
    for _ in range(ROUNDS):  # in turn, and the least of each, because other processes disturb CPU time as well
        with TemporaryDirectory() as folder:
            study = fresh(folder)
            examples_of(study, rows)  # reference log-probabilities are there for all that follows
            works: dict[str, Callable[[], Any]] = {
                "trainings alone": partial(train_halves, study, rows),
                "with 1 evaluation a run": partial(held_out_losses, study, rows, seeds=SEEDS, checkpoints=1),
                "with 5 evaluations a run": partial(held_out_losses, study, rows, seeds=SEEDS, checkpoints=5),
            }
            for name, work in works.items():
                least[name] = min(least.get(name, float("inf")), cpu_seconds(work))
    alone = least["trainings alone"]
    for name, seconds in least.items():
        typer.echo(f"{name}: {seconds:.1f} CPU-s, {seconds / alone:.2f}")


if __name__ == "__main__":
    typer.run(main)
