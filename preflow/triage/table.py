"""The triage table: every measurement of a comparison in one row, and what to do with it."""

from dataclasses import dataclass

import dataframely as dy
import polars as pl

from preflow.audit.schemas import Contradictions, DuplicateClusters, VoteSummary
from preflow.divergence.schemas import AgreementClasses, PredictedDivergence
from preflow.reasons.schemas import DivergenceReasons
from preflow.reward.schemas import RewardPredictions
from preflow.treatments.schemas import DifficultyScores
from preflow.triage.groups import opposing_groups
from preflow.triage.rules import Thresholds, decided_by
from preflow.triage.schemas import GroupPreferences, Triage
from preflow.triage.suspicion import suspected_flip, value_of_second_look

STRONGEST_FIRST = ("written_reason", "rule", "tagger", "endpoint")
"""Sources of reasons: the annotators' own words, what was measured of the responses, a model whose probabilities are
calibrated, and last a language model, whose word comes with neither a measurement nor a probability."""


def _nothing(schema: type[dy.Schema]) -> pl.LazyFrame:
    return schema.create_empty().lazy()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was measured of the comparisons, each a table of the schema of its name; the empty table of what was not."""

    vote_summary: pl.LazyFrame
    classes: pl.LazyFrame
    """`AgreementClasses`."""
    reasons: pl.LazyFrame
    """`DivergenceReasons`."""
    groups: pl.LazyFrame
    """`GroupPreferences`."""
    predicted: pl.LazyFrame
    """`PredictedDivergence`: the gap and its spread; where it is missing the gap is that of `rewards`."""
    rewards: pl.LazyFrame
    """Rewards of the recorded labels; see `preflow.reward_models.scores.scored_pairs`."""
    difficulty: pl.LazyFrame
    """`DifficultyScores` of one model for the recorded labels."""
    duplicates: pl.LazyFrame
    """`DuplicateClusters`."""
    contradictions: pl.LazyFrame

    @classmethod
    def empty(cls) -> "Evidence":
        """Nothing was measured; `dataclasses.replace` puts in what was."""
        return cls(
            vote_summary=_nothing(VoteSummary),
            classes=_nothing(AgreementClasses),
            reasons=_nothing(DivergenceReasons),
            groups=_nothing(GroupPreferences),
            predicted=_nothing(PredictedDivergence),
            rewards=_nothing(RewardPredictions),
            difficulty=_nothing(DifficultyScores),
            duplicates=_nothing(DuplicateClusters),
            contradictions=_nothing(Contradictions),
        )


def triage(
    comparisons: pl.LazyFrame,
    decided: pl.LazyFrame,
    evidence: Evidence,
    *,
    flip_share: float,
    thresholds: Thresholds,
) -> pl.DataFrame:
    """`Triage` of all comparisons, sorted by pair id. No text is read.

    Parameters
    ----------
    decided
        `Verdicts`: the recorded label of each comparison.
    flip_share
        The share of labels that are expected to be turned round, in (0, 1); see `preflow.triage.suspicion`.

    Raises
    ------
    ValueError
        The difficulty is that of several models, or `flip_share` is out of range.
    """
    _check_one_model(evidence.difficulty)
    rows = _joined(comparisons, decided, evidence).with_columns(suspected_flip=suspected_flip(flip_share=flip_share))
    found = rows.with_columns(
        recommendation=decided_by(thresholds, of="recommendation"),
        rule=decided_by(thresholds, of="name"),
        expected_value=value_of_second_look(),
    )
    wanted = Triage.create_empty().schema
    return (
        found.select(pl.col(name).cast(kind) for name, kind in wanted.items())
        .sort("pair_id")
        .collect(engine="streaming")
    )


def recommendation_counts(table: pl.LazyFrame) -> list[dict[str, object]]:
    """How many comparisons each rule decided: records of rule, recommendation, pairs, most first."""
    counts = table.group_by(pl.col("rule", "recommendation").cast(pl.String)).agg(pairs=pl.len().cast(pl.Int64))
    return counts.sort(["pairs", "rule"], descending=[True, False]).collect().to_dicts()


def _check_one_model(difficulty: pl.LazyFrame) -> None:
    models = difficulty.select("scored_by").unique().sort("scored_by").collect()["scored_by"].to_list()
    if len(models) > 1:
        raise ValueError(f"difficulty is a model's own; give the scores of one, not of {len(models)}: {models[:3]}")


def _joined(comparisons: pl.LazyFrame, decided: pl.LazyFrame, evidence: Evidence) -> pl.LazyFrame:
    rows = comparisons.select("pair_id", "source")
    tables = (_labels(decided), *_opinions(evidence), *_copies(decided, evidence))
    for table in tables:
        rows = rows.join(table, on="pair_id", how="left")
    a = pl.col("label") == "a"
    gap = pl.col("reward_chosen") - pl.col("reward_rejected")
    return rows.with_columns(
        pl.col("n_votes").fill_null(0),
        pl.col("agreement_class", "careful_class").fill_null("too_few_votes"),
        pl.col("substantial", "groups_oppose", "repeated", "contradicted", "own_vote_contradiction").fill_null(
            value=False
        ),
        pl.col("reasons").fill_null([]),
        pl.col("exact_cluster", "near_cluster").fill_null(pl.col("pair_id")),
        pl.col("n_exact", "n_near").fill_null(1),
        worker_share=pl.when(a).then("worker_share_a").when(pl.col("label") == "b").then(1 - pl.col("worker_share_a")),
        reward_gap=pl.coalesce("predicted_gap", pl.when(a).then(gap).otherwise(-gap)),
    )


def _labels(decided: pl.LazyFrame) -> pl.LazyFrame:
    label = pl.when(pl.col("outcome") != "undecided").then(pl.col("verdict").cast(pl.String))
    return decided.select("pair_id", label=label, label_source=pl.col("label_source").cast(pl.String))


def _opinions(evidence: Evidence) -> tuple[pl.LazyFrame, ...]:
    """What people and models say of each pair."""
    text = pl.String
    return (
        evidence.vote_summary.select(
            "pair_id", "n_votes", "worker_share_a", pl.col("majority").cast(text), agreement=1 - pl.col("entropy")
        ),
        evidence.classes.select(
            "pair_id", "substantial", pl.col("agreement_class", "careful_class", "careful_preferred").cast(text)
        ),
        opposing_groups(evidence.groups).select("pair_id").unique().with_columns(groups_oppose=pl.lit(value=True)),
        _strongest(evidence.reasons),
        evidence.predicted.select(
            "pair_id",
            "opposite_sides",
            predicted_gap=pl.col("mu_a") - pl.col("mu_b"),
            gap_spread=(pl.col("sigma_a") ** 2 + pl.col("sigma_b") ** 2).sqrt(),
        ),
        evidence.rewards.select("pair_id", "probability", "reward_chosen", "reward_rejected"),
        evidence.difficulty.select("pair_id", "difficulty", "flip_suspicion"),
    )


def _strongest(reasons: pl.LazyFrame) -> pl.LazyFrame:
    """pair_id and its causes by name, each with the first of STRONGEST_FIRST that found it."""
    rank = pl.col("source").cast(pl.String).replace_strict({name: i for i, name in enumerate(STRONGEST_FIRST)})
    first = (
        reasons.with_columns(pl.col("label", "source").cast(pl.String), rank=rank)
        .sort("pair_id", "label", "rank")
        .unique(["pair_id", "label"], keep="first", maintain_order=True)
    )
    return first.group_by("pair_id").agg(reasons=pl.struct("label", "source", "probability").sort_by("label"))


def _copies(decided: pl.LazyFrame, evidence: Evidence) -> tuple[pl.LazyFrame, ...]:
    """What the duplicates of each pair say."""
    clusters = evidence.duplicates
    unsure = pl.col("outcome") != "pair"
    # A labelled pair stands for its cluster, or its least id does.
    first = pl.col("pair_id").sort_by(unsure, "pair_id").first()
    several = clusters.filter(pl.col("n_exact") > 1).select("pair_id", "exact_cluster")
    standing = (
        several.join(decided.select("pair_id", "outcome"), on="pair_id").group_by("exact_cluster").agg(first=first)
    )
    repeated = several.join(standing, on="exact_cluster").filter(pl.col("pair_id") != pl.col("first"))
    own = pl.col("kind") == "own_vote"
    sides = [evidence.contradictions.filter(~own).select(pair_id=side) for side in ("pair_id", "other_pair_id")]
    flag = pl.lit(value=True)
    return (
        clusters.select("pair_id", "exact_cluster", "near_cluster", "n_exact", "n_near"),
        repeated.select("pair_id", repeated=flag),
        pl.concat(sides).unique().with_columns(contradicted=flag),
        evidence.contradictions.filter(own).select("pair_id").unique().with_columns(own_vote_contradiction=flag),
    )
