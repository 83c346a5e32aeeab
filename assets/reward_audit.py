"""What each reward pays for: responses rewritten twice, and the rewards of all versions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.endpoint import EndpointParams
from assets.reward import RewardParams
from assets.reward_models import RewardModelsParams
from assets.training import TrainingParams
from preflow.params import Params, ProjectPath
from preflow.reward_audit.schemas import RewardedAttributes, Rewrites
from preflow.reward_models.schemas import RewardName


class RewardAuditParams(Params):
    """Section `reward_audit`: which rewards are audited for what."""

    rewards: list[RewardName] = Field(min_length=1)
    """Rewards by name."""
    attributes: list[Literal["length", "list", "hedging", "exclamation", "typos", "vowel_first"]]
    """What is rewritten; vowel_first is a placebo."""
    responses: int = Field(gt=3)
    """At most so many distinct responses are rewritten; above 3."""
    endpoint: EndpointParams | None
    """A language model that rewrites; null for the programs."""
    answers: ProjectPath
    """File that keeps its answers from one run to the next."""
    rewrites_file: ProjectPath
    """Rewrites of your own beside these, in the form of inputs/README.md; may be empty."""
    seed: int = Field(ge=0)
    """Seed of the draw of responses; at least 0."""


own_rewrites = dg.AssetSpec(
    "own_rewrites",
    description="The user's own rewrites; never written to.",
    metadata={"path": "${reward_audit.rewrites_file}"},
    kinds={"file"},
    owners=["team:reward_audit"],
)


@dg.asset(
    io_manager_key="table",
    metadata={"schema": Meta.python_artifact(Rewrites), "may_be_empty": True},
    kinds={"polars"},
    deps=[own_rewrites],
)
def response_rewrites(comparisons: pl.LazyFrame, reward_audit: dg.ResourceParam[RewardAuditParams]) -> pl.LazyFrame:
    """Responses rewritten to have an attribute or not, and back; a reason for each that could not be."""
    from preflow.reward_audit.attributes import WORDINGS, attributes_of
    from preflow.reward_audit.brought import brought_rewrites
    from preflow.reward_audit.rewrites import Wording, by_endpoint, by_program, responses_of, rewrites

    responses = responses_of(comparisons.collect(), most=reward_audit.responses, seed=reward_audit.seed)
    asked, answers = reward_audit.endpoint, Path(reward_audit.answers)
    tables = [brought_rewrites(Path(reward_audit.rewrites_file))]
    for name, attribute in attributes_of(reward_audit.attributes, responses["original"].to_list()).items():
        program = by_program(attribute)
        model = asked and by_endpoint(Wording(*WORDINGS[name]), endpoint=asked.endpoint(), answers=answers)
        tables.append(rewrites(responses, attribute, model or program))
    return pl.concat(tables).sort("attribute", "response_id").lazy()


@dg.multi_asset(
    outs={
        "rewarded_attributes": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(RewardedAttributes), "may_be_empty": True},
            description="What each reward pays for each attribute, beside naive estimates, with what is not known.",
            kinds={"polars"},
        ),
        "reward_audit_summary": dg.AssetOut(
            io_manager_key="metrics", description="The effects that are identified, and why others are not."
        ),
        "attribute_effects": dg.AssetOut(
            io_manager_key="plot", description="Effects in standard deviations of each reward, with intervals."
        ),
    },
    pool="gpu",
)
def audit_rewards(
    response_rewrites: pl.LazyFrame,
    baseline_reward_model: Path,
    discriminative_reward_model: Path,
    generative_reward_model: Path,
    reward: dg.ResourceParam[RewardParams],
    training: dg.ResourceParam[TrainingParams],
    reward_models: dg.ResourceParam[RewardModelsParams],
    reward_audit: dg.ResourceParam[RewardAuditParams],
) -> Iterator[dg.Output]:
    """Effects of attributes on rewards, from rewrites of rewrites."""
    from preflow.charts import attribute_effects
    from preflow.reward_audit.audit import audited
    from preflow.reward_audit.summary import audit_summary

    scorers = reward_models.scorers(
        reward_audit.rewards,
        reward,
        training,
        baseline=baseline_reward_model,
        discriminative=discriminative_reward_model,
        generative=generative_reward_model,
    )
    found = audited(response_rewrites.collect(), scorers)
    yield dg.Output(found.lazy(), "rewarded_attributes")
    yield dg.Output(audit_summary(found), "reward_audit_summary")
    yield dg.Output(attribute_effects(found), "attribute_effects")
