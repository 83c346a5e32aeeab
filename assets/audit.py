"""What the feedback is worth as it stands: duplicates, contradictions, splits without leakage, votes and annotators."""

from typing import Any, Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.audit.schemas import AnnotatorQuality, Contradictions, DuplicateClusters, Splits, VoteSummary
from preflow.params import Params


class AuditParams(Params):
    """Section `audit`: how duplicates are found, the data is split and votes are read."""

    near_threshold: float = Field(gt=0, le=1)
    """Estimated Jaccard similarity from which two comparisons are near duplicates; above 0, at most 1."""
    num_perm: int = Field(ge=16, le=1024)
    """MinHash permutations: more estimate the similarity better and cost more; 16 to 1024."""
    validation_fraction: float = Field(ge=0, lt=1)
    """Share of the comparisons for validation; from 0, with test_fraction below 1."""
    test_fraction: float = Field(ge=0, lt=1)
    """Share of the comparisons for test; from 0, with validation_fraction below 1."""
    worker_model: Literal["dawid_skene", "mace"]
    """Worker-quality model beside the majority: dawid_skene or mace."""
    worker_iterations: int = Field(ge=1)
    """Bound on the steps of the worker-quality model; at least 1."""
    seed: int = Field(ge=0)
    """Seed of permutations, splits and worker model; at least 0."""


@dg.multi_asset(
    outs={
        "duplicate_clusters": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(DuplicateClusters)},
            description="Which comparisons say the same, exactly or nearly; clustered, not dropped.",
            kinds={"polars"},
        ),
        "contradictions": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Contradictions), "may_be_empty": True},
            description="A over B here, B over A there.",
            kinds={"polars"},
        ),
        "splits": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Splits)},
            description="Train, validation and test; prompt groups and near duplicates stay together.",
            kinds={"polars"},
        ),
        "leakage": dg.AssetOut(
            io_manager_key="metrics",
            description="How many prompt groups and duplicate clusters straddle two splits: none, by construction.",
        ),
    },
)
def deduplicate(
    comparisons: pl.LazyFrame, votes: pl.LazyFrame, audit: dg.ResourceParam[AuditParams]
) -> tuple[pl.LazyFrame, pl.LazyFrame, pl.LazyFrame, dict[str, int]]:
    """Duplicate clusters, contradictions within them, and splits that divide none of them."""
    from preflow.audit.duplicates import contradictions, near_clusters
    from preflow.audit.splits import leakage, split_by_group

    clusters = near_clusters(
        comparisons, threshold=audit.near_threshold, num_perm=audit.num_perm, seed=audit.seed
    ).lazy()
    splits = split_by_group(
        comparisons,
        clusters,
        validation_fraction=audit.validation_fraction,
        test_fraction=audit.test_fraction,
        seed=audit.seed,
    ).lazy()
    return clusters, contradictions(comparisons, votes).lazy(), splits, leakage(comparisons, clusters, splits)


@dg.multi_asset(
    outs={
        "vote_summary": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(VoteSummary), "may_be_empty": True},
            description="The vote picture of every comparison: counts, entropy, majority, worker-quality posterior.",
            kinds={"polars"},
        ),
        "annotator_quality": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(AnnotatorQuality), "may_be_empty": True},
            description="How often each annotator agrees with the others, with an interval.",
            kinds={"polars"},
        ),
        "agreement": dg.AssetOut(
            io_manager_key="metrics",
            description="Krippendorff's alpha, unanimity, and each aggregation against the gold where there is one.",
        ),
    },
)
def aggregate_votes(
    comparisons: pl.LazyFrame, votes: pl.LazyFrame, audit: dg.ResourceParam[AuditParams]
) -> tuple[pl.LazyFrame, pl.LazyFrame, dict[str, Any]]:
    """Votes read two ways, by majority and by worker quality, and what they say of the annotators."""
    from preflow.audit.votes import aggregation_against_gold, summarise_votes

    summary, quality, agreement = summarise_votes(
        comparisons, votes, worker_model=audit.worker_model, iterations=audit.worker_iterations, seed=audit.seed
    )
    against_gold = aggregation_against_gold(comparisons, summary.lazy())
    return summary.lazy(), quality.lazy(), agreement | {"against_gold": against_gold}
