"""The agreement class of each pair (Zhang et al., ICML 2025), with and without the votes of careless annotators.

In this order, by annotators: *too_few_votes*, fewer than two; *diverging*, at least one on each side, and within it
*substantial*, a stated clear preference on each side; *preference*, more than half for one side, the others tied;
*tie*, more than half tied; *residual*, the rest. So a pair with voters on both sides is diverging even where most see
a tie. A preference of unstated strength takes a side but is never evidence of a clear one.
"""

from collections.abc import Iterable

import polars as pl

from preflow.divergence.histograms import ballots, vote_histograms
from preflow.divergence.schemas import CLASSES, SIDES, AgreementClasses

FIELDS = ("n_annotators", "agreement_class", "preferred", "substantial")


def agreement_classes(comparisons: pl.LazyFrame, votes: pl.LazyFrame, *, careless: Iterable[str]) -> pl.DataFrame:
    """`AgreementClasses` of all comparisons, sorted by pair id.

    Parameters
    ----------
    votes
        The votes to count: filter them by annotator_kind first where labels or judge models should not count as people.
    careless
        Annotators whose votes the careful picture leaves out, see `preflow.divergence.annotators`.
    """
    given = ballots(votes)
    careful = given.filter(~pl.col("annotator").is_in(list(careless)))
    pairs = comparisons.select("pair_id").sort("pair_id").collect()
    everyone, rest = _classes(pairs, given), _classes(pairs, careful)
    careful_columns = rest.select(
        careful_class="agreement_class", careful_preferred="preferred", careful_substantial="substantial"
    )
    table = pl.concat([everyone, careful_columns], how="horizontal")
    return AgreementClasses.cast(table.with_columns(n_careless=everyone["n_annotators"] - rest["n_annotators"]))


def class_counts(classes: pl.DataFrame) -> dict[str, dict[str, int]]:
    """How many comparisons each class has, by all annotators and by the careful ones, as JSON-ready numbers.

    Among the classes of few votes, those without any vote are counted apart.
    """
    return {
        "all": _count(classes, "agreement_class", "substantial", "n_annotators"),
        "careful": _count(
            classes.with_columns(n_careful=pl.col("n_annotators") - pl.col("n_careless")),
            "careful_class",
            "careful_substantial",
            "n_careful",
        ),
    }


def _count(classes: pl.DataFrame, name: str, substantial: str, voters: str) -> dict[str, int]:
    found = {label: int((classes[name] == label).sum()) for label in CLASSES}
    return found | {"substantial": int(classes[substantial].sum()), "no_votes": int((classes[voters] == 0).sum())}


def _classes(pairs: pl.DataFrame, given: pl.DataFrame) -> pl.DataFrame:
    """pair_id and FIELDS of `pairs`, in their order."""
    found = pairs.join(vote_histograms(given), on="pair_id", how="left", maintain_order="left").fill_null(0)
    side = {s: pl.sum_horizontal(f"{s}_{how}" for how in ("slight", "clear", "unstated")) for s in SIDES}
    n = side["a"] + side["b"] + pl.col("tie")
    diverging = (n > 1) & (side["a"] > 0) & (side["b"] > 0)
    most = {s: (n > 1) & ~diverging & (2 * side[s] > n) for s in SIDES}
    label = (
        pl.when(n < 2)
        .then(pl.lit("too_few_votes"))
        .when(diverging)
        .then(pl.lit("diverging"))
        .when(most["a"] | most["b"])
        .then(pl.lit("preference"))
        .when(2 * pl.col("tie") > n)
        .then(pl.lit("tie"))
        .otherwise(pl.lit("residual"))
    )
    preferred = pl.when(most["a"]).then(pl.lit("a")).when(most["b"]).then(pl.lit("b"))
    substantial = diverging & (pl.col("a_clear") > 0) & (pl.col("b_clear") > 0)
    return found.select("pair_id", **dict(zip(FIELDS, (n, label, preferred, substantial), strict=True)))
