"""What the votes of a pair say about why annotators differ: who was careless, along which property they split."""

from dataclasses import dataclass

import polars as pl

from preflow.reasons.content import PROPERTIES

_DIRECTION = pl.col("choice").cast(pl.String).replace_strict({"a": 1.0, "b": -1.0, "tie": 0.0})


@dataclass(frozen=True, kw_only=True)
class Carelessness:
    """When a vote is doubted. Disagreeing is no ground: an annotator of rare taste is not a careless one."""

    rush_share: float
    """A vote is rushed below this share of the median time of all votes of its annotator_kind that have one."""
    min_agreement: float
    """An annotator is careless whose agreement with the others lies wholly (Wilson interval) below this."""


def doubtful_votes(votes: pl.LazyFrame, quality: pl.LazyFrame, care: Carelessness) -> pl.DataFrame:
    """vote_id, pair_id, annotator, direction (1 a, -1 b, 0 tie) and doubtful of each vote, in order of vote_id.

    `quality` is `AnnotatorQuality`; an annotator it does not know, or could not compare, is not doubted.
    """
    careless = pl.col("agreement_high") < care.min_agreement
    rushed = pl.col("seconds") < care.rush_share * pl.col("seconds").median().over("annotator_kind")
    return (
        votes.join(quality.select("annotator", "agreement_high"), on="annotator", how="left")
        .select(
            "vote_id",
            "pair_id",
            "annotator",
            direction=_DIRECTION,
            doubtful=careless.fill_null(value=False) | rushed.fill_null(value=False),
        )
        .sort("vote_id")
        .collect()
    )


def vote_evidence(judged: pl.DataFrame, differences: pl.DataFrame, *, shrinkage: float) -> pl.DataFrame:
    """One row per pair of `differences`, in its order, with what its votes say; zeros where it has none.

    Columns: pair_id; `diverges` (votes on both sides); `doubtful_share` of the votes; `only_doubtful` (it would not
    diverge without the doubtful votes); and `split_` with each of PROPERTIES: the covariance, over the votes of the
    pair, between the side that a vote took and how much its annotator leans to the property on all *other* pairs (-1 to
    1), times the size of the difference. It is positive where those who elsewhere prefer longer responses chose the
    longer one here and those who do not chose the shorter one. Doubtful votes count in no leaning and no covariance.

    Parameters
    ----------
    judged
        What `doubtful_votes` gives.
    differences
        What `preflow.reasons.content.content_evidence` gives.
    shrinkage
        Weight of a prior of no leaning, in votes; positive, or an annotator with one vote would divide zero by zero.
    """
    a, b = (pl.col("direction") == side for side in (1, -1))
    sound = ~pl.col("doubtful")
    counts = judged.group_by("pair_id").agg(
        diverges=a.any() & b.any(),
        doubtful_share=pl.col("doubtful").mean(),
        sound_diverges=(a & sound).any() & (b & sound).any(),
    )
    summary = counts.select(
        "pair_id", "diverges", "doubtful_share", only_doubtful=pl.col("diverges") & ~pl.col("sound_diverges")
    ).with_columns(pl.col("diverges", "only_doubtful").cast(pl.Float64))
    return (
        differences.select("pair_id")
        .join(summary, on="pair_id", how="left", maintain_order="left")
        .join(_splits(judged.filter(sound), differences, shrinkage), on="pair_id", how="left", maintain_order="left")
        .fill_null(0.0)
    )


def _splits(sound: pl.DataFrame, differences: pl.DataFrame, shrinkage: float) -> pl.DataFrame:
    """pair_id and a `split_` column for each of PROPERTIES."""
    votes = sound.sort("pair_id", "annotator", "vote_id")
    pairs = votes.select(pl.col("pair_id").unique(maintain_order=True))
    # One property at a time: all at once would hold three columns a property for every vote.
    return pairs.hstack([_split(votes, differences.select("pair_id", name), name, shrinkage) for name in PROPERTIES])


def _split(votes: pl.DataFrame, difference: pl.DataFrame, name: str, shrinkage: float) -> pl.Series:
    """The `split_` column of a property, a value for each pair in the order of `votes`."""
    size = pl.col(name).abs()
    pull = pl.col("direction") * pl.col(name)
    own = ["annotator", "pair_id"]
    elsewhere = [one.sum().over("annotator") - one.sum().over(own) for one in (pull, size)]
    leaning = elsewhere[0] / (elsewhere[1] + shrinkage)
    rows = votes.join(difference.with_columns(_scaled(name)), on="pair_id", how="left", maintain_order="left")
    covariances = (
        rows.with_columns(pull=pull, leaning=leaning)
        .group_by("pair_id", maintain_order=True)
        .agg(pl.cov("pull", "leaning", ddof=0).fill_null(0.0))
    )
    return covariances["pull"].alias(f"split_{name}")


def _scaled(name: str) -> pl.Expr:
    """The difference in units of its root mean square over all pairs, cut at 1 (a list is a list)."""
    size = pl.col(name).pow(2).mean().sqrt()
    return pl.when(size > 0).then(pl.col(name) / size).otherwise(0.0).clip(-1, 1)
