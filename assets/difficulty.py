"""How hard each pair is for the policy, and the share of them worth training on (Selective DPO)."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.training import TrainingParams
from preflow.params import Params
from preflow.treatments.schemas import DifficultyScores, HeldOutLosses, TreatedPairs, kept_rows


class DifficultyParams(Params):
    """Section `difficulty`: reference runs, and the choice of a share."""

    seeds: list[int] = Field(min_length=1)
    """Each splits the pairs into halves and trains on both: two reference runs a seed."""
    checkpoints: int = Field(gt=0)
    """Evaluations of each reference run; above 0. One costs a third of a pass over the pairs."""
    learned_margin: float = Field(ge=0)
    """A pair counts as learned while its reward margin is above this; at least 0."""
    shares: list[float] = Field(min_length=1)
    """Shares of the pairs to try, easiest first, each above 0 and at most 1; validation pairs choose."""
    share_seeds: list[int] = Field(min_length=1)
    """Seeds of the trainings that measure each share."""
    curriculum: bool
    """Whether training goes from easy to hard; else it is shuffled."""
    bootstrap: int = Field(ge=2000)
    """Bootstrap rounds of every interval; at least 2000."""


@dg.multi_asset(
    outs={
        "held_out_losses": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(HeldOutLosses), "may_be_empty": True},
            description="Loss of each pair at each checkpoint of the runs that did not train on it.",
            kinds={"polars"},
        ),
        "difficulty_scores": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(DifficultyScores), "may_be_empty": True},
            description="How hard each pair is for this policy, how sure that is, and whether its label looks wrong.",
            kinds={"polars"},
        ),
        "ranking": dg.AssetOut(
            io_manager_key="metrics", description="How many pairs are ranked, and how far the seeds agree on it."
        ),
    },
    pool="gpu",
)
def score_difficulty(
    untreated_pairs: pl.LazyFrame,
    start_policy: Path,
    training: dg.ResourceParam[TrainingParams],
    difficulty: dg.ResourceParam[DifficultyParams],
) -> Iterator[dg.Output]:
    """The difficulty of each pair: its loss under policies that were trained on the other half of the pairs."""
    from preflow.policies.held_out import held_out_losses, ranked

    study = training.study(start_policy)
    losses = held_out_losses(
        study, kept_rows(untreated_pairs, "train"), seeds=difficulty.seeds, checkpoints=difficulty.checkpoints
    )
    scores, metrics = ranked(
        study, losses, checkpoints=difficulty.checkpoints, learned_margin=difficulty.learned_margin
    )
    yield dg.Output(losses.lazy(), "held_out_losses")
    yield dg.Output(scores.lazy(), "difficulty_scores")
    yield dg.Output(metrics, "ranking")


@dg.multi_asset(
    outs={
        "selected_pairs": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(TreatedPairs), "may_be_empty": True},
            description="The easiest share of the train pairs, and why each other pair was left out.",
            kinds={"polars"},
        ),
        "selection": dg.AssetOut(
            io_manager_key="metrics", description="The share that is kept, and the validation accuracy of each share."
        ),
        "accuracy_by_share": dg.AssetOut(
            io_manager_key="plot", description="Accuracy on validation pairs against the share that is trained on."
        ),
    },
    pool="gpu",
)
def select(
    untreated_pairs: pl.LazyFrame,
    difficulty_scores: pl.LazyFrame,
    start_policy: Path,
    training: dg.ResourceParam[TrainingParams],
    difficulty: dg.ResourceParam[DifficultyParams],
) -> Iterator[dg.Output]:
    """The pairs that this policy can learn from: the share that validation pairs favour."""
    from preflow.charts import accuracy_by_share
    from preflow.policies.share import select_on_validation

    selected, chosen = select_on_validation(
        training.study(start_policy),
        kept_rows(untreated_pairs, "train"),
        difficulty_scores.collect(),
        kept_rows(untreated_pairs, "validation"),
        shares=difficulty.shares,
        curriculum=difficulty.curriculum,
        seeds=difficulty.share_seeds,
        rounds=difficulty.bootstrap,
    )
    yield dg.Output(selected.lazy(), "selected_pairs")
    yield dg.Output(chosen, "selection")
    yield dg.Output(accuracy_by_share(chosen), "accuracy_by_share")
