"""Where annotators differ, why, and what a reward can know of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from assets.endpoint import EndpointParams
from assets.reward import RewardParams
from assets.training import TrainingParams
from preflow.divergence.schemas import AgreementClasses, AnnotatorClusters, PredictedDivergence
from preflow.params import Params, ProjectPath
from preflow.reasons.schemas import DivergenceReasons, ReasonRemainders


class GroupsParams(Params):
    """How groups of annotators and careless ones are found."""

    min_agreement: float = Field(ge=0, le=1)
    """An annotator who surely agrees less with their own group is careless; 0 to 1."""
    min_shared: int = Field(gt=0)
    """Contested pairs that two annotators must share to be compared; above 0."""
    max_p: float = Field(gt=0, lt=1)
    """Greatest p-value at which groups are named; above 0, below 1."""
    permutations: int = Field(ge=99)
    """How often votes are dealt anew for the test; at least 99."""


class ThresholdsParams(Params):
    """From where on a measured difference is called a reason."""

    length_ratio: float = Field(gt=1)
    """Words of the longer response over those of the shorter; above 1."""
    format_marks: float = Field(gt=0)
    """Difference in list items and marks, in logarithms; above 0."""
    reading_levels: float = Field(gt=0)
    """Difference in school grades; above 0."""
    tone: float = Field(gt=0)
    """Difference in exclamation marks and emoji, in logarithms; above 0."""
    fact_conflict: float = Field(gt=0, le=1)
    """Share of numbers and names in one response only, times the overlap; above 0, at most 1."""
    repetition: float = Field(gt=0, le=1)
    """Share of repeated runs of three words; above 0, at most 1."""
    prompt_words: int = Field(ge=0)
    """Prompts of no more words leave much open; at least 0."""
    overlap: float = Field(ge=0, le=1)
    """Responses that share no more of their words answer different questions; 0 to 1."""


class CausesParams(Params):
    """How reasons are found."""

    rush_share: float = Field(ge=0)
    """Votes faster than this share of the median time are doubted; at least 0."""
    shrinkage: float = Field(ge=0)
    """Votes by which an annotator's leaning is pulled to none; at least 0."""
    planted_pairs: int = Field(ge=300)
    """Pairs of the world of planted causes that the tagger is trained on; at least 300, or causes go unlearnt."""
    inverse_l2: float = Field(gt=0)
    """Inverse strength of regularisation of the tagger; above 0."""
    folds: int = Field(ge=2)
    """Folds of its calibration; at least 2."""
    min_probability: float = Field(ge=0, le=1)
    """Causes that are less probable are not named; 0 to 1."""
    min_reasons: int = Field(ge=1)
    """Written reasons that must speak for a cause; at least 1."""
    phrases: int = Field(ge=1)
    """Distinguishing phrases shown for each pair; at least 1."""
    endpoint: EndpointParams | None
    """A language model as a further source of reasons; null for none."""
    answers: ProjectPath
    """File that keeps its answers from one run to the next."""


class DistributionParams(Params):
    """The reward that knows its own spread."""

    backbone: Literal["embeddings", "policy"]
    """embeddings: a head on them; policy: copies of the start policy, tuned as training.recipe says, not as here."""
    widths: list[int]
    """Hidden layers; [] for a linear reward."""
    l2_grid: list[float] = Field(min_length=1)
    """Strengths of regularisation to try; the validation split chooses."""
    lr: float = Field(gt=0)
    """Learning rate; above 0."""
    epochs: int = Field(gt=0)
    """Passes over the comparisons; above 0."""
    batch_size: int = Field(gt=0)
    """Comparisons an update; above 0."""
    rho: float = Field(ge=0, lt=1)
    """Correlation of an annotator's rewards of the two responses; from 0 to below 1."""
    sigma_floor: float = Field(gt=0)
    """Least standard deviation; above 0."""
    lambda_grid: list[float] = Field(min_length=1)
    """Weights of the spread against the gap to try; the validation split chooses."""
    bootstrap: int = Field(ge=2000)
    """Bootstrap rounds of every interval; at least 2000."""


class DivergenceParams(Params):
    """Section `divergence`: whose votes count, and how their differences are read."""

    annotator_kinds: list[Literal["person", "model", "label"]] = Field(min_length=1)
    """Whose votes count: person, model (a judge), label."""
    groups: GroupsParams
    """Groups of annotators and careless ones."""
    causes: CausesParams
    """Reasons for divergence."""
    thresholds: ThresholdsParams
    """Rules for reasons."""
    reward: DistributionParams
    """The distributional reward model."""
    seed: int = Field(ge=0)
    """Seed of permutations, tagger and reward; at least 0."""


@dg.multi_asset(
    outs={
        "agreement_classes": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(AgreementClasses)},
            description="Preference, tie, diverging or residual: by all annotators and by the careful ones.",
            kinds={"polars"},
        ),
        "annotator_clusters": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(AnnotatorClusters), "may_be_empty": True},
            description="Groups of annotators who vote alike, where there are any.",
            kinds={"polars"},
        ),
        "divergence_counts": dg.AssetOut(
            io_manager_key="metrics", description="Comparisons by class, careless annotators, and whether groups exist."
        ),
    },
)
def classify(
    comparisons: pl.LazyFrame, votes: pl.LazyFrame, divergence: dg.ResourceParam[DivergenceParams]
) -> tuple[pl.LazyFrame, pl.LazyFrame, dict[str, Any]]:
    """How the annotators of each comparison agree; a careless annotator is not a diverging one."""
    from preflow.divergence.annotators import careful_groups
    from preflow.divergence.classes import agreement_classes, class_counts

    counted = votes.filter(pl.col("annotator_kind").is_in(divergence.annotator_kinds))
    grouping, careless = careful_groups(counted, **divergence.groups.model_dump(), seed=divergence.seed)
    classes = agreement_classes(comparisons, counted, careless=careless)
    found = {"groups": grouping.outcome, "n_groups": grouping.n_clusters, "groups_p": grouping.p_value}
    return classes.lazy(), grouping.clusters.lazy(), class_counts(classes) | found | {"careless": len(careless)}


@dg.multi_asset(
    outs={
        "reason_tagger": dg.AssetOut(
            io_manager_key="model", description="Calibrated heads, one a cause, trained on planted causes."
        ),
        "divergence_reasons": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(DivergenceReasons), "may_be_empty": True},
            description="Why annotators differ on a comparison, as each source sees it, with evidence.",
            kinds={"polars"},
        ),
        "reason_remainders": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(ReasonRemainders), "may_be_empty": True},
            description="What each source of reasons leaves unexplained.",
            kinds={"polars"},
        ),
    },
)
def explain(
    comparisons: pl.LazyFrame,
    votes: pl.LazyFrame,
    annotator_quality: pl.LazyFrame,
    divergence: dg.ResourceParam[DivergenceParams],
) -> Iterator[dg.Output]:
    """Reasons for divergence, never a forced one."""
    from preflow.reasons.judgements import Carelessness
    from preflow.reasons.reasons import found_reasons, trained_tagger
    from preflow.reasons.rules import Thresholds

    causes = divergence.causes
    care = Carelessness(rush_share=causes.rush_share, min_agreement=divergence.groups.min_agreement)
    tagger = trained_tagger(
        pairs=causes.planted_pairs,
        inverse_l2=causes.inverse_l2,
        folds=causes.folds,
        seed=divergence.seed,
        care=care,
        shrinkage=causes.shrinkage,
    )
    reasons, remainders = found_reasons(
        comparisons,
        votes.filter(pl.col("annotator_kind").is_in(divergence.annotator_kinds)),
        annotator_quality,
        tagger,
        thresholds=Thresholds(**divergence.thresholds.model_dump()),
        min_probability=causes.min_probability,
        min_reasons=causes.min_reasons,
        phrases=causes.phrases,
        endpoint=causes.endpoint.endpoint() if causes.endpoint else None,
        answers=Path(causes.answers),
        care=care,
        shrinkage=causes.shrinkage,
    )
    yield dg.Output(tagger, "reason_tagger")
    yield dg.Output(reasons.lazy(), "divergence_reasons")
    yield dg.Output(remainders.lazy(), "reason_remainders")


@dg.multi_asset(
    outs={
        "distributional_reward_model": dg.AssetOut(
            io_manager_key="model", description="Mean and spread of the reward of a response.", kinds={"torch"}
        ),
        "predicted_divergence": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(PredictedDivergence), "may_be_empty": True},
            description="What the reward expects the annotators of each comparison to say.",
            kinds={"polars"},
        ),
        "divergence_evaluation": dg.AssetOut(
            io_manager_key="metrics", description="Accuracy and AUROC of divergence against a Bradley-Terry reward."
        ),
    },
    pool="gpu",
)
def fit_distribution(
    comparisons: pl.LazyFrame,
    votes: pl.LazyFrame,
    agreement_classes: pl.LazyFrame,
    splits: pl.LazyFrame,
    response_embeddings: pl.LazyFrame,
    start_policy: Path,
    reward: dg.ResourceParam[RewardParams],
    training: dg.ResourceParam[TrainingParams],
    divergence: dg.ResourceParam[DivergenceParams],
) -> Iterator[dg.Output]:
    """A mean-variance reward fitted to the histograms of votes, evaluated where it has not been trained."""
    from preflow.divergence.distribution import fit_distribution as fit
    from preflow.divergence.voted import voted_comparisons, voted_table

    counted = votes.filter(pl.col("annotator_kind").is_in(divergence.annotator_kinds))
    of = (comparisons, counted, agreement_classes, splits)
    if divergence.reward.backbone == "embeddings":
        voted = voted_comparisons(*of, response_embeddings.collect())
        settings = divergence.reward.model_dump(exclude={"backbone"})
        fitted = fit(voted, **settings, encoder=reward.encoder, threads=reward.threads, seed=divergence.seed)
    else:
        from preflow.divergence.language_model import fit_on_policy

        study = training.study(start_policy)
        prompts = comparisons.select("pair_id", "prompt").collect()
        settings = divergence.reward.model_dump(include={"rho", "sigma_floor", "lambda_grid", "bootstrap"})
        fitted = fit_on_policy(voted_table(*of), prompts, study, **settings, seed=divergence.seed)
    yield dg.Output(fitted.model, "distributional_reward_model")
    yield dg.Output(fitted.predicted.lazy(), "predicted_divergence")
    yield dg.Output(fitted.evaluation, "divergence_evaluation")
