"""How good the rewards are: on held-out pairs of one's own, and on published benchmarks."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl
from pydantic import Field

from assets.reward import RewardParams
from assets.reward_models import RewardModelsParams
from assets.training import TrainingParams
from preflow.params import Params, ProjectPath
from preflow.reward_models.schemas import RewardName

if TYPE_CHECKING:
    from preflow.reward_models.scorer import Scorer


class RewardBenchmarkParams(Params):
    """Section `reward_benchmark`: which rewards are measured, and on which published files."""

    rewards: list[RewardName] = Field(min_length=1)
    """Rewards by name."""
    path: ProjectPath
    """Folder of published benchmark files; may hold none."""
    bootstrap: int = Field(ge=2000)
    """Bootstrap rounds of every interval; at least 2000."""
    bins: int = Field(ge=2)
    """Bins of the calibration error; at least 2."""
    seed: int = Field(ge=0)
    """Seed of the bootstrap; at least 0."""


benchmark_files = dg.AssetSpec(
    "benchmark_files",
    description="Files of RewardBench, RM-Bench, JudgeBench or HelpSteer as published; never written to.",
    metadata={"path": "${reward_benchmark.path}"},
    kinds={"file"},
    owners=["team:reward_benchmark"],
)


@dg.multi_asset(
    outs={
        "reward_benchmark": dg.AssetOut(
            io_manager_key="metrics",
            description="Accuracy, paired tests, calibration, order consistency and leanings of each reward.",
        ),
        "reward_accuracy": dg.AssetOut(io_manager_key="plot", description="Accuracy of each reward on held-out pairs."),
    },
    deps=[benchmark_files],
    pool="gpu",
)
def measure_rewards(
    reward_scores: pl.LazyFrame,
    preference_pairs: pl.LazyFrame,
    baseline_reward_model: Path,
    discriminative_reward_model: Path,
    generative_reward_model: Path,
    reward: dg.ResourceParam[RewardParams],
    training: dg.ResourceParam[TrainingParams],
    reward_models: dg.ResourceParam[RewardModelsParams],
    reward_benchmark: dg.ResourceParam[RewardBenchmarkParams],
) -> Iterator[dg.Output]:
    """Rewards side by side on pairs that none was fitted on."""
    from preflow.charts import reward_accuracy
    from preflow.reward_benchmark.own_pairs import compare_rewards
    from preflow.reward_benchmark.scoring import published_scores

    names, how = reward_benchmark.rewards, {"rounds": reward_benchmark.bootstrap, "seed": reward_benchmark.seed}
    test = preference_pairs.filter(pl.col("split") == "test").collect()
    own = compare_rewards(reward_scores.collect(), test, names, bins=reward_benchmark.bins, **how)

    def opened() -> "Mapping[str, Scorer]":
        return reward_models.scorers(
            names,
            reward,
            training,
            baseline=baseline_reward_model,
            discriminative=discriminative_reward_model,
            generative=generative_reward_model,
        )

    published = published_scores(Path(reward_benchmark.path), opened, **how)
    yield dg.Output({"own_pairs": own, "published": published}, "reward_benchmark")
    yield dg.Output(reward_accuracy(own), "reward_accuracy")
