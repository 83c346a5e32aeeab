"""All sources of reasons on one set of comparisons: rules, the tagger, what annotators wrote, a language model."""

from pathlib import Path

import polars as pl

from preflow.endpoint.settings import Endpoint
from preflow.reasons.asked import tag_by_endpoint
from preflow.reasons.evidence import CONTENT, JUDGEMENTS, pair_evidence
from preflow.reasons.judgements import Carelessness
from preflow.reasons.planted import planted_pairs, training_recipe
from preflow.reasons.rules import Thresholds, tag_by_rule
from preflow.reasons.schemas import DivergenceReasons, ReasonRemainders
from preflow.reasons.tagger import ReasonTagger, fit_tagger
from preflow.reasons.written import tag_by_written_reasons


def trained_tagger(
    *, pairs: int, care: Carelessness, shrinkage: float, inverse_l2: float, folds: int, seed: int
) -> ReasonTagger:
    """A tagger that has seen so many pairs whose causes were planted."""
    planted = planted_pairs(training_recipe(pairs), care=care, shrinkage=shrinkage, seed=seed)
    columns = [*CONTENT, *JUDGEMENTS]
    return fit_tagger(
        planted.evidence, planted.causes, planted.groups, columns=columns, inverse_l2=inverse_l2, folds=folds
    )


def found_reasons(
    comparisons: pl.LazyFrame,
    votes: pl.LazyFrame,
    quality: pl.LazyFrame,
    tagger: ReasonTagger,
    *,
    care: Carelessness,
    shrinkage: float,
    thresholds: Thresholds,
    min_probability: float,
    min_reasons: int,
    phrases: int,
    endpoint: Endpoint | None,
    answers: Path,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`DivergenceReasons` and `ReasonRemainders` of the diverging pairs, by every source; none without votes.

    A language model is asked where there is an `endpoint`; see `tag_by_endpoint` for what is raised.
    """
    evidence = pair_evidence(comparisons, votes, quality, care=care, shrinkage=shrinkage)
    found = [
        tag_by_rule(evidence, thresholds),
        tagger.tag(evidence, min_probability=min_probability),
        tag_by_written_reasons(votes, min_reasons=min_reasons, phrases=phrases),
    ]
    if endpoint is not None:
        diverging = comparisons.collect().join(evidence.filter("diverges"), on="pair_id", how="semi")
        found.append(tag_by_endpoint(diverging, endpoint=endpoint, answers=answers))
    reasons, remainders = (pl.concat(tables) for tables in zip(*found, strict=True))
    return (
        DivergenceReasons.cast(reasons.sort("pair_id", "source", "label")),
        ReasonRemainders.cast(remainders.sort("pair_id", "source")),
    )
