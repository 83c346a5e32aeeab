"""Groups of annotators who vote alike where the annotators differ, if there are any; and who is careless.

On a contested pair two random votes agree with a known probability. The excess of two annotators is how much oftener
they agree, over the contested pairs that both judged, in units of its square root of n. Dealing the votes of each pair
anew to those who judged it destroys every group and keeps all else: the leading eigenvalue of the excess under this
null says how large one must be to mean anything (parallel analysis: Horn, 1965), and the eigenvectors above it are
clustered by k-means, which is spectral clustering with the number of groups given by the test.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from scipy import sparse
from sklearn.cluster import KMeans
from statsmodels.stats.proportion import proportion_confint

from preflow.divergence.histograms import ballots
from preflow.divergence.schemas import AnnotatorClusters, GroupAgreement

CODES = (1, -1, 0)  # a, b, tie
MIN_ANNOTATORS = 4  # two groups of two: below, groups cannot be told from single people


Outcome = Literal["clusters", "no_structure", "too_few_shared_pairs"]


@dataclass(frozen=True)
class Grouping:
    """The groups and how they were found."""

    clusters: pl.DataFrame
    """`AnnotatorClusters`, sorted by annotator."""
    outcome: Outcome
    n_clusters: int
    """0 where there are none."""
    p_value: float | None
    """Share of dealt votes with as large an eigenvalue; None where too few pairs are shared."""


def annotator_clusters(votes: pl.LazyFrame, *, min_shared: int, max_p: float, permutations: int, seed: int) -> Grouping:
    """Groups of annotators who vote alike, all of them; see `careful_groups`.

    Parameters
    ----------
    min_shared
        Contested pairs that two annotators must have in common to be compared.
    max_p
        The largest p-value at which groups are named.
    permutations
        How often the votes are dealt anew; the least p-value is 1 / (permutations + 1).
    """
    given = _choices(votes)
    everyone = given["annotator"].unique().sort()
    table = _Contested(given.filter(pl.col("choice").n_unique().over("pair_id") > 1), everyone)
    partners = table.partners(min_shared)
    compared = np.flatnonzero(partners)
    labels, p_value = np.full(len(everyone), -1), None
    if len(compared) >= MIN_ANNOTATORS:
        excess = table.excess(compared, min_shared)
        labels[compared], p_value = _spectral(excess, max_p=max_p, permutations=permutations, seed=seed)
    clusters = pl.DataFrame(
        {
            "annotator": everyone,
            "n_contested": table.voted.sum(1).astype(np.int64),
            "n_partners": partners,
            "cluster": pl.Series([None if label < 0 else int(label) for label in labels], dtype=pl.Int64),
        }
    )
    found = int(labels.max(initial=-1)) + 1
    outcome: Outcome = "too_few_shared_pairs" if p_value is None else "clusters" if found else "no_structure"
    return Grouping(AnnotatorClusters.cast(clusters), outcome, found, p_value)


def careful_groups(
    votes: pl.LazyFrame, *, min_agreement: float, min_shared: int, max_p: float, permutations: int, seed: int
) -> tuple[Grouping, list[str]]:
    """The groups of the careful annotators, and the careless ones, sorted by name.

    Careless annotators differ from the others too, and may fall into a group with people whose taste is that of a
    minority. So the groups and the careless are found in turn, without the votes of those already found, until nobody
    new is careless.
    """
    careless: list[str] = []
    while True:
        careful = votes.filter(~pl.col("annotator").is_in(careless))
        groups = annotator_clusters(careful, min_shared=min_shared, max_p=max_p, permutations=permutations, seed=seed)
        found = careless_annotators(group_agreement(careful, groups.clusters), min_agreement=min_agreement)
        if not found:
            return groups, sorted(careless)
        careless += found


def group_agreement(votes: pl.LazyFrame, clusters: pl.DataFrame) -> pl.DataFrame:
    """`GroupAgreement`: how often each annotator agrees with the others of their own group, sorted by annotator.

    With the majority of all, who has the taste of a minority agrees as little as who ticks at random; with people of
    the same taste they do agree. An annotator without a group is compared with all others.
    """
    given = _choices(votes).join(clusters.select("annotator", "cluster"), on="annotator", maintain_order="left")
    grouped = pl.col("cluster").is_not_null()
    others, same = (
        pl.when(grouped).then(pl.len().over("pair_id", "cluster", *by)).otherwise(pl.len().over("pair_id", *by)) - 1
        for by in ([], ["choice"])
    )
    by_pair = given.with_columns(others=others, same=same).with_columns(
        agreed=pl.when(pl.col("others") > 0).then(pl.col("same") / pl.col("others"))
    )
    table = (
        by_pair.group_by("annotator")
        .agg(pl.col("cluster").first(), n_compared=pl.col("agreed").count(), agreement=pl.col("agreed").mean())
        .sort("annotator")
    )
    n = table["n_compared"].to_numpy()
    agreed = table["agreement"].fill_null(0.0).to_numpy() * n
    _, high = proportion_confint(agreed, np.maximum(n, 1), alpha=0.05, method="wilson")
    return GroupAgreement.cast(table.with_columns(agreement_high=pl.Series(np.where(n > 0, high, 1.0))))


def careless_annotators(agreement: pl.DataFrame, *, min_agreement: float) -> list[str]:
    """Annotators of `GroupAgreement` who surely agree less than `min_agreement` with their group, sorted by name.

    Surely: the upper end of their interval lies below. An annotator of whom little is known is never called careless.
    """
    return agreement.filter(pl.col("agreement_high") < min_agreement)["annotator"].sort().to_list()


def _choices(votes: pl.LazyFrame) -> pl.DataFrame:
    code = pl.col("outcome").str.slice(0, 1).replace_strict({"a": 1, "b": -1, "t": 0}, return_dtype=pl.Int8)
    return ballots(votes).select("pair_id", "annotator", choice=code)


class _Contested:
    """The ballots on contested pairs as sparse matrices, [annotators, pairs]."""

    def __init__(self, contested: pl.DataFrame, everyone: pl.Series) -> None:
        pairs = contested["pair_id"].unique().sort()
        self.row = everyone.search_sorted(contested["annotator"]).to_numpy()
        self.column = pairs.search_sorted(contested["pair_id"]).to_numpy()
        self.choice = contested["choice"].to_numpy()
        self.shape = (len(everyone), len(pairs))
        self.voted = self._where(np.ones(len(contested), dtype=bool))
        votes = np.bincount(self.column, minlength=len(pairs))
        same = sum(np.bincount(self.column[self.choice == c], minlength=len(pairs)) ** 2 for c in CODES)
        self.expected = (same - votes) / np.maximum(votes * (votes - 1), 1)

    def _where(self, mask: np.ndarray) -> sparse.csr_array:
        ones = np.ones(int(mask.sum()))
        return sparse.csr_array((ones, (self.row[mask], self.column[mask])), shape=self.shape)

    def partners(self, min_shared: int) -> np.ndarray:
        """How many others share enough pairs with each annotator, [annotators]."""
        shared = self.voted @ self.voted.T
        shared.setdiag(0)
        return np.asarray((shared >= min_shared).sum(1)).ravel() if shared.nnz else np.zeros(self.shape[0], dtype=int)

    def excess(self, rows: np.ndarray, min_shared: int) -> "_Excess":
        """What the excess of the annotators `rows` is measured against."""
        voted = self.voted[rows]
        shared = (voted @ voted.T).toarray()
        enough = (shared >= min_shared) & ~np.eye(len(rows), dtype=bool)
        expected = (voted * self.expected[None, :] @ voted.T).toarray()
        return _Excess(self, rows, expected, np.where(enough, 1 / np.sqrt(np.maximum(shared, 1)), 0.0))

    def deal(self, rng: np.random.Generator) -> np.ndarray:
        """The choices, those of each pair dealt anew to the people who judged it."""
        dealt = np.empty_like(self.choice)
        dealt[np.argsort(self.column, kind="stable")] = self.choice[
            np.lexsort((rng.random(len(self.column)), self.column))
        ]
        return dealt


@dataclass(frozen=True)
class _Excess:
    table: _Contested
    rows: np.ndarray
    expected: np.ndarray
    weight: np.ndarray
    """1 / sqrt(shared pairs), 0 where too few are shared."""

    def __call__(self, choice: np.ndarray) -> np.ndarray:
        """(agreements - expected) / sqrt(shared), [m, m]."""
        chose = [self.table._where(choice == c)[self.rows] for c in CODES]
        return (sum(one @ one.T for one in chose).toarray() - self.expected) * self.weight


def _spectral(excess: _Excess, *, max_p: float, permutations: int, seed: int) -> tuple[np.ndarray, float]:
    """The group of each compared annotator, [m], -1 for all where there are none; and the p-value."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(excess(excess.table.choice))
    null = [np.linalg.eigvalsh(excess(excess.table.deal(rng)))[-1] for _ in range(permutations)]
    p_value = (1 + sum(one >= values[-1] for one in null)) / (1 + permutations)
    if p_value > max_p:
        return np.full(len(values), -1), p_value
    kept = values > max(np.quantile(null, 1 - max_p), 0)
    return _k_means(vectors[:, kept] * np.sqrt(values[kept]), seed), p_value


def _k_means(points: np.ndarray, seed: int) -> np.ndarray:
    """Groups, [m], one more than there are dimensions, numbered by size and then by their first member."""
    found = KMeans(n_clusters=points.shape[1] + 1, n_init=10, random_state=seed).fit_predict(points)
    names, first, sizes = np.unique(found, return_index=True, return_counts=True)
    order = names[np.lexsort((first, -sizes))]
    return np.argsort(order)[found]
