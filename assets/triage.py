"""What to do with each comparison: one table for the whole refinery, and the queue for a second look."""

from typing import Any, Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.divergence import DivergenceParams
from preflow.params import Params
from preflow.reward_models.schemas import RewardName
from preflow.treatments.schemas import TreatedPairs
from preflow.triage.queue import ReviewQueue
from preflow.triage.schemas import GroupPreferences, Triage


class ActionsParams(Params):
    """What becomes of the pairs of an agreement class in the pluralistic dataset."""

    preference: Literal["keep", "soft_label", "split_by_group", "drop", "review"]
    """Most prefer one side, and nobody the other."""
    tie: Literal["keep", "soft_label", "split_by_group", "drop", "review"]
    """Most see a tie."""
    diverging: Literal["keep", "soft_label", "split_by_group", "drop", "review"]
    """Somebody on each side."""
    substantial: Literal["keep", "soft_label", "split_by_group", "drop", "review"]
    """A clear preference on each side."""
    residual: Literal["keep", "soft_label", "split_by_group", "drop", "review"]
    """None of these."""
    too_few_votes: Literal["keep", "soft_label", "split_by_group", "drop", "review"]
    """Fewer than two annotators."""


class TriageParams(Params):
    """Section `triage`: from where on a doubt counts, and what is done."""

    reward: RewardName
    """The reward that says how far apart two responses are, and whether it doubts a label."""
    flip_share: float = Field(gt=0, lt=1)
    """Share of labels that you expect to be turned round; above 0, below 1."""
    relabel: float = Field(ge=0, le=1)
    """P(label is wrong) from which it should be turned; 0 to 1, at least review."""
    review: float = Field(ge=0, le=1)
    """P(label is wrong) from which a person should look; 0 to 1."""
    too_hard: float = Field(gt=0)
    """Held-out DPO loss from which a pair is beyond the model; above 0."""
    queue: int = Field(gt=0)
    """Comparisons in the review queue; above 0."""
    pluralistic: ActionsParams
    """What becomes of each agreement class in the pluralistic dataset."""


@dg.asset(
    io_manager_key="table",
    metadata={"schema": Meta.python_artifact(GroupPreferences), "may_be_empty": True},
    kinds={"polars"},
)
def group_preferences(
    votes: pl.LazyFrame, annotator_clusters: pl.LazyFrame, divergence: dg.ResourceParam[DivergenceParams]
) -> pl.LazyFrame:
    """What most of each group of annotators prefer, pair by pair."""
    from preflow.triage import groups

    counted = votes.filter(pl.col("annotator_kind").is_in(divergence.annotator_kinds))
    return groups.group_preferences(counted, annotator_clusters).lazy()


@dg.asset(
    io_manager_key="table",
    metadata={"schema": Meta.python_artifact(TreatedPairs), "may_be_empty": True},
    kinds={"polars"},
)
def pluralistic_pairs(
    comparisons: pl.LazyFrame,
    preference_pairs: pl.LazyFrame,
    decisions: pl.LazyFrame,
    agreement_classes: pl.LazyFrame,
    group_preferences: pl.LazyFrame,
    splits: pl.LazyFrame,
    triage: dg.ResourceParam[TriageParams],
) -> pl.LazyFrame:
    """Training data that keeps disagreement: soft labels, a row a group, or none, by how the annotators agree."""
    from preflow.treatments import pluralistic

    return pluralistic.pluralistic_pairs(
        comparisons,
        preference_pairs,
        decisions,
        agreement_classes,
        group_preferences,
        splits,
        policy=triage.pluralistic.model_dump(),
    ).lazy()


@dg.multi_asset(
    outs={
        "triage_table": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Triage)},
            description="All that is known of each comparison, what to do with it, and the rule that says so.",
            kinds={"polars"},
        ),
        "review_queue": dg.AssetOut(
            io_manager_key="dataset", description="The comparisons most worth a second look, as csv and jsonl."
        ),
        "recommendations": dg.AssetOut(io_manager_key="metrics", description="How many comparisons each rule decided."),
    },
)
def sort_out(
    comparisons: pl.LazyFrame,
    decisions: pl.LazyFrame,
    vote_summary: pl.LazyFrame,
    agreement_classes: pl.LazyFrame,
    divergence_reasons: pl.LazyFrame,
    group_preferences: pl.LazyFrame,
    predicted_divergence: pl.LazyFrame,
    reward_scores: pl.LazyFrame,
    difficulty_scores: pl.LazyFrame,
    duplicate_clusters: pl.LazyFrame,
    contradictions: pl.LazyFrame,
    triage: dg.ResourceParam[TriageParams],
) -> tuple[pl.LazyFrame, ReviewQueue, dict[str, Any]]:
    """Every comparison with its evidence and a recommended treatment."""
    from preflow.reward_models.scores import scored_pairs
    from preflow.triage.review import review_queue
    from preflow.triage.rules import Thresholds
    from preflow.triage.table import Evidence, recommendation_counts
    from preflow.triage.table import triage as sorted_out

    labelled = decisions.filter(pl.col("outcome") == "pair").select("pair_id", chosen_is="verdict")
    evidence = Evidence(
        vote_summary=vote_summary,
        classes=agreement_classes,
        reasons=divergence_reasons,
        groups=group_preferences,
        predicted=predicted_divergence,
        rewards=scored_pairs(reward_scores, labelled, reward=triage.reward),
        difficulty=difficulty_scores,
        duplicates=duplicate_clusters,
        contradictions=contradictions,
    )
    thresholds = Thresholds(relabel=triage.relabel, review=triage.review, too_hard=triage.too_hard)
    table = sorted_out(comparisons, decisions, evidence, flip_share=triage.flip_share, thresholds=thresholds).lazy()
    queue = ReviewQueue(review_queue(table, comparisons, size=triage.queue))
    return table, queue, {"rules": recommendation_counts(table)}
