"""How judges decide where people agree and where they do not."""

from pathlib import Path
from typing import Any, Literal

import dagster as dg
import polars as pl
from pydantic import Field

from assets.divergence import DivergenceParams
from assets.endpoint import EndpointParams
from preflow.params import Params, ProjectPath


class JudgesParams(Params):
    """Section `judges`: who is audited as a judge."""

    annotator_kind: Literal["person", "model"]
    """Annotators of this kind are audited: person or model."""
    most: int = Field(gt=0)
    """At most so many, those with the most votes; above 0."""
    endpoint: EndpointParams | None
    """A language model as one more judge; null for none."""
    answers: ProjectPath
    """File that keeps its answers from one run to the next."""
    asked_pairs: int = Field(ge=6)
    """It is asked about at most so many comparisons, as many of each agreement class; at least 6, the classes."""
    divisive_share: float = Field(ge=0, lt=1)
    """Share of the prompts, the most divisive ones, that are left out to see how a ranking of systems changes."""
    bootstrap: int = Field(ge=2000)
    """Bootstrap rounds of every interval; at least 2000."""
    seed: int = Field(ge=0)
    """Seed of the bootstrap; at least 0."""


@dg.asset(io_manager_key="metrics")
def judge_audit(
    comparisons: pl.LazyFrame,
    votes: pl.LazyFrame,
    predicted_divergence: pl.LazyFrame,
    divergence: dg.ResourceParam[DivergenceParams],
    judges: dg.ResourceParam[JudgesParams],
) -> dict[str, Any]:
    """Winner rates and biases of each judge, and its ranking of systems with and without divisive prompts."""
    from preflow.judges.all_judges import audits

    return audits(
        comparisons,
        votes,
        predicted_divergence,
        counted_kinds=list(divergence.annotator_kinds),
        judge_kind=judges.annotator_kind,
        most=judges.most,
        endpoint=judges.endpoint.endpoint() if judges.endpoint else None,
        answers=Path(judges.answers),
        asked_pairs=judges.asked_pairs,
        divisive_share=judges.divisive_share,
        bootstrap=judges.bootstrap,
        seed=judges.seed,
    )
