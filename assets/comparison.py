"""What each treatment is worth: responses judged, policies compared."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.endpoint import EndpointParams
from assets.reward import RewardParams
from assets.reward_models import RewardModelsParams
from assets.training import TrainingParams
from preflow.comparison.schemas import EndpointVerdicts, JudgedResponses
from preflow.params import Params, ProjectPath
from preflow.reward_models.schemas import RewardName


class ComparisonParams(Params):
    """Section `comparison`: who judges, and how the judgements are compared."""

    reward: RewardName
    """The reward that judges the responses."""
    endpoint: EndpointParams | None
    """A language model as a further judge; null for none."""
    answers: ProjectPath
    """File that keeps the answers of the endpoint from one run to the next."""
    good_score: float
    """Score from which a rejected response is a good one, whose probability should not be driven down."""
    bootstrap: int = Field(ge=2000)
    """Bootstrap rounds of every interval; at least 2000."""
    seed: int = Field(ge=0)
    """Seed of bootstrap and tests; at least 0."""


@dg.multi_asset(
    outs={
        "judged_responses": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(JudgedResponses), "may_be_empty": True},
            description="What gold reward and reward model give each response.",
            kinds={"polars"},
        ),
        "endpoint_verdicts": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(EndpointVerdicts), "may_be_empty": True},
            description="Which of two responses a language model prefers, in both orders; none without an endpoint.",
            kinds={"polars"},
        ),
    },
)
def judge(
    policy_responses: pl.LazyFrame,
    baseline_reward_model: Path,
    discriminative_reward_model: Path,
    generative_reward_model: Path,
    reward: dg.ResourceParam[RewardParams],
    training: dg.ResourceParam[TrainingParams],
    reward_models: dg.ResourceParam[RewardModelsParams],
    comparison: dg.ResourceParam[ComparisonParams],
) -> Iterator[dg.Output]:
    """Every response of every policy, judged."""
    from preflow.comparison.judges import endpoint_verdicts, judged_responses

    scorers = reward_models.scorers(
        [comparison.reward],
        reward,
        training,
        baseline=baseline_reward_model,
        discriminative=discriminative_reward_model,
        generative=generative_reward_model,
    )
    judged = judged_responses(policy_responses.collect(), scorers[comparison.reward])
    asked = comparison.endpoint
    verdicts = endpoint_verdicts(judged, endpoint=asked.endpoint() if asked else None, answers=Path(comparison.answers))
    yield dg.Output(judged.lazy(), "judged_responses")
    yield dg.Output(verdicts.lazy(), "endpoint_verdicts")


@dg.multi_asset(
    outs={
        "policy_comparison": dg.AssetOut(
            io_manager_key="metrics",
            description="Scores, paired differences with tests, goal control, unlearning and accuracy of every policy.",
        ),
        "treatment_differences": dg.AssetOut(
            io_manager_key="plot", description="What each treatment gains on plain training on all pairs."
        ),
        "goal_control": dg.AssetOut(io_manager_key="plot", description="The score asked for against the score given."),
    },
)
def compare(
    judged_responses: pl.LazyFrame,
    endpoint_verdicts: pl.LazyFrame,
    policy_logprobs: pl.LazyFrame,
    readable: dict[str, Any],
    comparison: dg.ResourceParam[ComparisonParams],
) -> Iterator[dg.Output]:
    """Which treatment is worth what, and what cannot be told apart."""
    from preflow.charts import treatment_differences, treatment_goal_control
    from preflow.comparison.summary import not_measured, summarise_comparison

    if reason := readable["not_studied"]:
        summary = not_measured(reason)
    else:
        summary = summarise_comparison(
            judged_responses.collect(),
            endpoint_verdicts.collect(),
            policy_logprobs.collect(),
            good_score=comparison.good_score,
            rounds=comparison.bootstrap,
            seed=comparison.seed,
        )
    yield dg.Output(summary, "policy_comparison")
    yield dg.Output(treatment_differences(summary), "treatment_differences")
    yield dg.Output(treatment_goal_control(summary), "goal_control")
