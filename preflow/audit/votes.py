"""What the votes say: aggregation, agreement and the quality of each annotator.

A tie is a third class. Aggregated against a gold label, a tie counts half, as a coin would.
"""

import warnings
from typing import Any, Literal

import krippendorff
import numpy as np
import pandas as pd
import polars as pl
from crowdkit.aggregation import MACE, DawidSkene
from statsmodels.stats.proportion import proportion_confint

from preflow.audit.schemas import AnnotatorQuality, VoteSummary
from preflow.evaluation import mcnemar
from preflow.schemas import CHOICES

COUNTS = [f"n_{choice}" for choice in CHOICES]
MACE_MOST_VOTES = 300  # crowd-kit multiplies a pair's likelihoods instead of adding logarithms: more would underflow

WorkerModel = Literal["dawid_skene", "mace"]


def summarise_votes(
    comparisons: pl.LazyFrame, votes: pl.LazyFrame, *, worker_model: WorkerModel, iterations: int, seed: int
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, Any]]:
    """The vote picture of each pair (`VoteSummary`), each annotator (`AnnotatorQuality`), and their agreement.

    A repeated vote of an annotator on a pair (a judge asked in both orders) counts as a vote everywhere but in
    Krippendorff's alpha and is never compared with its own repetition. `iterations` bounds the EM steps of the worker
    model; `seed` starts MACE (Dawid-Skene starts from the votes).

    Raises ValueError if a pair has more votes than MACE can multiply.
    """
    ballots = (
        votes.select(
            "pair_id", "annotator", "annotator_kind", "vote_id", pl.col("choice", "shown_first").cast(pl.String)
        )
        .sort("pair_id", "annotator", "vote_id")
        .collect()
    )
    posterior = _worker_posterior(ballots, worker_model=worker_model, iterations=iterations, seed=seed)
    summary = _summary(ballots, posterior)
    gold = comparisons.select("pair_id", pl.col("gold").cast(pl.String)).collect()
    quality = _quality(ballots, summary, posterior, gold)
    return summary, quality, _agreement(ballots, summary)


def aggregation_against_gold(comparisons: pl.LazyFrame, summary: pl.LazyFrame) -> dict[str, float | int | None]:
    """Accuracy of majority and worker model where gold is known, and the exact McNemar test between them.

    A tie against a decided gold is half right in both. The test counts the pairs on which one of the two is nearer to
    the gold than the other.
    """
    rows = (
        summary.join(comparisons.select("pair_id", pl.col("gold").cast(pl.String)).drop_nulls("gold"), on="pair_id")
        .select(*(_credit(pl.col(name).cast(pl.String)).alias(name) for name in ("majority", "worker_label")))
        .collect()
    )
    test = mcnemar(rows["worker_label"].to_numpy(), rows["majority"].to_numpy())
    return {
        "n_gold": len(rows),
        "majority_accuracy": _mean(rows["majority"]),
        "worker_accuracy": _mean(rows["worker_label"]),
        "n_worker_better": test["only_first"],
        "n_majority_better": test["only_second"],
        "p_value": test["p_value"] if len(rows) else None,
    }


def _credit(label: pl.Expr) -> pl.Expr:
    """1 for the gold label, 1/2 for a tie where the gold is decided, else 0."""
    return pl.when(label == pl.col("gold")).then(1.0).when(label == "tie").then(0.5).otherwise(0.0)


def _value_of_a() -> pl.Expr:
    """What a vote gives to response_a: 1, 0, or 1/2 for a tie."""
    return pl.col("choice").replace_strict({"a": 1.0, "b": 0.0, "tie": 0.5}, return_dtype=pl.Float64)


def _leader(counts: list[pl.Expr]) -> pl.Expr:
    """The choice with more votes than every other; null where nothing leads."""
    most = pl.max_horizontal(counts)
    leads = pl.sum_horizontal((count == most).cast(pl.Int64) for count in counts) == 1
    choice = pl.when(counts[0] == most).then(pl.lit("a")).when(counts[1] == most).then(pl.lit("b"))
    return pl.when(leads & (most > 0)).then(choice.otherwise(pl.lit("tie")))


def _tally(ballots: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """n_a, n_b and n_tie of each group of votes."""
    count = {f"n_{choice}": (pl.col("choice") == choice).sum().cast(pl.Int64) for choice in CHOICES}
    return ballots.group_by(by, maintain_order=True).agg(**count)


def _summary(ballots: pl.DataFrame, posterior: pl.DataFrame) -> pl.DataFrame:
    """`VoteSummary`, one row per voted pair in order of pair_id."""
    total = pl.sum_horizontal(COUNTS)
    shares = [pl.col(name) / total for name in COUNTS]
    entropy = -pl.sum_horizontal(
        pl.when(share > 0).then(share * share.log(len(CHOICES))).otherwise(0) for share in shares
    )
    return VoteSummary.cast(
        _tally(ballots, ["pair_id"])
        .with_columns(
            n_votes=total,
            share_a=shares[0] + shares[2] / 2,
            entropy=entropy.clip(0, 1),
            majority=_leader([pl.col(name) for name in COUNTS]).fill_null("tie"),
        )
        .join(posterior, on="pair_id", maintain_order="left")
        .with_columns(
            worker_label=_leader([pl.col(f"p_{choice}") for choice in CHOICES]).fill_null("tie"),
            worker_share_a=(pl.col("p_a") + pl.col("p_tie") / 2).clip(0, 1),
        )
    )


def _worker_posterior(ballots: pl.DataFrame, *, worker_model: WorkerModel, iterations: int, seed: int) -> pl.DataFrame:
    """pair_id, p_a, p_b, p_tie: the worker model's belief about the better response of every voted pair.

    Workers and labels are passed as numbers in order of appearance, because crowd-kit 1.4's MACE numbers by appearance
    what it then sums in sorted order. It draws every restart from the same seed, so one is enough.
    """
    if ballots.is_empty():
        return pl.DataFrame(schema={"pair_id": pl.String} | {f"p_{choice}": pl.Float64 for choice in CHOICES})
    most = int(ballots["pair_id"].value_counts()["count"].to_numpy().max())
    if worker_model == "mace" and most > MACE_MOST_VOTES:
        raise ValueError(f"a pair has {most} votes, more than {MACE_MOST_VOTES}: use worker_model=dawid_skene")
    columns = {"task": "pair_id", "worker": "annotator", "label": "choice"}
    numbered = pd.DataFrame({column: pd.factorize(ballots[name].to_numpy())[0] for column, name in columns.items()})
    tasks, labels = (ballots[name].unique(maintain_order=True) for name in ("pair_id", "choice"))
    model = (
        DawidSkene(n_iter=iterations)
        if worker_model == "dawid_skene"
        else MACE(n_restarts=1, n_iter=iterations, random_state=seed)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.Pandas4Warning)  # crowd-kit 1.4 still writes in place
        belief = model.fit_predict_proba(numbered)
    belief = belief.reindex(index=range(len(tasks)), columns=range(len(labels)))
    known = {f"p_{name}": belief[code].to_numpy() for code, name in enumerate(labels)}
    absent = {f"p_{choice}": np.zeros(len(tasks)) for choice in CHOICES if f"p_{choice}" not in known}
    return pl.DataFrame({"pair_id": tasks} | known | absent)


def _quality(ballots: pl.DataFrame, summary: pl.DataFrame, posterior: pl.DataFrame, gold: pl.DataFrame) -> pl.DataFrame:
    """`AnnotatorQuality` in order of the annotator's name."""
    own = _tally(ballots, ["pair_id", "annotator"]).rename({name: f"own_{name}" for name in COUNTS})
    belief = pl.coalesce(pl.when(pl.col("choice") == choice).then(f"p_{choice}") for choice in CHOICES)
    decided = pl.col("shown_first").is_not_null() & (pl.col("choice") != "tie")
    first = pl.when(decided).then(pl.col("choice") == pl.col("shown_first"))
    rows = (
        ballots.join(summary.select("pair_id", *COUNTS), on="pair_id")
        .join(own, on=["pair_id", "annotator"])
        .join(posterior, on="pair_id")
        .join(gold, on="pair_id", how="left")
        .with_columns(others=_leader([pl.col(name) - pl.col(f"own_{name}") for name in COUNTS]))
    )
    quality = rows.group_by("annotator").agg(
        annotator_kind=pl.col("annotator_kind").sort().first(),
        n_votes=pl.len(),
        n_compared=pl.col("others").count(),
        n_agree=(pl.col("others") == pl.col("choice")).sum(),
        worker_accuracy=belief.mean().clip(0, 1),
        gold_accuracy=pl.when(pl.col("gold").is_not_null()).then(_credit(pl.col("choice"))).mean(),
        share_a=_value_of_a().mean(),
        share_first=first.mean(),
        share_tie=(pl.col("choice") == "tie").mean(),
    )
    return AnnotatorQuality.cast(quality.sort("annotator").with_columns(*_wilson(quality.sort("annotator"))))


def _wilson(quality: pl.DataFrame) -> list[pl.Series]:
    """Agreement with the majority of the others and its 95 % interval; null where nothing could be compared."""
    n, agree = quality["n_compared"].to_numpy(), quality["n_agree"].to_numpy()
    low, high = proportion_confint(agree, np.maximum(n, 1), alpha=0.05, method="wilson")
    columns = {"agreement": agree / np.maximum(n, 1), "agreement_low": low, "agreement_high": high}
    return [pl.Series(name, np.where(n > 0, values, np.nan)).fill_nan(None) for name, values in columns.items()]


def _agreement(ballots: pl.DataFrame, summary: pl.DataFrame) -> dict[str, Any]:
    """Agreement over all pairs; what is undefined is None."""
    several = summary.filter(pl.col("n_votes") > 1)
    unanimous = several.select(pl.max_horizontal(COUNTS) == pl.col("n_votes")).to_series()
    decided = ballots.filter(pl.col("shown_first").is_not_null(), pl.col("choice") != "tie")
    return {
        "n_pairs": len(summary),
        "n_votes": len(ballots),
        "n_annotators": ballots["annotator"].n_unique(),
        "n_repeated_votes": len(ballots) - ballots.select("pair_id", "annotator").n_unique(),
        "alpha": _alpha(ballots),
        "unanimous_share": _mean(unanimous),
        "mean_entropy": _mean(summary["entropy"]),
        "tie_share": _mean(ballots["choice"] == "tie"),
        "undecided_share": _mean(summary["majority"].cast(pl.String) == "tie"),
        "share_a": _mean(ballots.select(_value_of_a()).to_series()),
        "share_first": _mean(decided["choice"] == decided["shown_first"]),
        "worker_differs_share": _mean(summary["majority"] != summary["worker_label"]),
    }


def _alpha(ballots: pl.DataFrame) -> float | None:
    """Krippendorff's alpha (nominal) of annotators on pairs; None without two coders of a pair or two values.

    A coder has one value a unit: repeated votes of an annotator become what they mostly chose, else a tie.
    """
    own = _tally(ballots, ["pair_id", "annotator"])
    ratings = own.with_columns(choice=_leader([pl.col(name) for name in COUNTS]).fill_null("tie"))
    counts = _tally(ratings, ["pair_id"]).select(COUNTS).to_numpy()
    pairable = counts[counts.sum(axis=1) > 1]
    if np.count_nonzero(pairable.sum(axis=0)) < 2:
        return None
    return float(krippendorff.alpha(value_counts=pairable, level_of_measurement="nominal"))


def _mean(values: pl.Series) -> float | None:
    """The mean as a plain float; None of nothing."""
    return float(values.mean()) if len(values) else None  # type: ignore[arg-type]
