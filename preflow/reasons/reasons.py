"""All sources of reasons on one set of comparisons: rules, the trained tagger, what annotators wrote."""

import polars as pl

from preflow.reasons.evidence import CONTENT, JUDGEMENTS, pair_evidence
from preflow.reasons.judgements import Carelessness
from preflow.reasons.planted import planted_pairs
from preflow.reasons.rules import Thresholds, tag_by_rule
from preflow.reasons.schemas import DivergenceReasons, ReasonRemainders
from preflow.reasons.tagger import ReasonTagger, fit_tagger
from preflow.reasons.written import tag_by_written_reasons
from preflow.world.causes import CauseRecipe


def trained_tagger(
    *, pairs: int, care: Carelessness, shrinkage: float, inverse_l2: float, folds: int, seed: int
) -> ReasonTagger:
    """A tagger that has seen so many pairs whose causes were planted."""
    planted = planted_pairs(_recipe(pairs), care=care, shrinkage=shrinkage, seed=seed)
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
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`DivergenceReasons` and `ReasonRemainders` of the diverging pairs, by every source; none without votes."""
    evidence = pair_evidence(comparisons, votes, quality, care=care, shrinkage=shrinkage)
    found = [
        tag_by_rule(evidence, thresholds),
        tagger.tag(evidence, min_probability=min_probability),
        tag_by_written_reasons(votes, min_reasons=min_reasons, phrases=phrases),
    ]
    reasons, remainders = (pl.concat(tables) for tables in zip(*found, strict=True))
    return (
        DivergenceReasons.cast(reasons.sort("pair_id", "source", "label")),
        ReasonRemainders.cast(remainders.sort("pair_id", "source")),
    )


def _recipe(pairs: int) -> CauseRecipe:
    """Six in ten pairs with a cause, and every kind of pair without one, so that the tagger learns to name none."""
    return CauseRecipe(
        n_pairs=pairs,
        shares={"caused": 0.6, "noise": 0.12, "inert": 0.08, "clear": 0.2},
        second=0.3,
        votes_per_pair=4,
        minded=8,
        indifferent=4,
        careless=[(20, 120)] * 3,
        taste=4.0,
        gap=4.0,
    )
