"""Comparisons on which at least two annotators voted, as the distributional rewards take them."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from preflow.divergence.histograms import ballots, counts, vote_histograms
from preflow.divergence.models import VotedPairs
from preflow.reward.baseline import reward_inputs


@dataclass(frozen=True)
class Voted:
    """A table of comparisons, and the same rows as inputs and counts."""

    table: pl.DataFrame
    """Columns pair_id, split, prompt_group, diverging; in order of pair_id."""
    pairs: VotedPairs

    def of(self, split: str) -> "Voted":
        """The rows of one split."""
        rows = torch.from_numpy(np.flatnonzero((self.table["split"] == split).to_numpy()))
        return Voted(self.table.filter(pl.col("split") == split), self.pairs[rows])


def voted_table(
    comparisons: pl.LazyFrame, votes: pl.LazyFrame, classes: pl.LazyFrame, splits: pl.LazyFrame
) -> pl.DataFrame:
    """All comparisons with two annotators or more, in order of pair_id; `classes` is `AgreementClasses`.

    Columns pair_id, split, prompt_group, diverging, response_a, response_b and OUTCOMES.
    """
    return (
        classes.filter(pl.col("n_annotators") > 1)
        .select("pair_id", diverging=pl.col("agreement_class") == "diverging")
        .join(comparisons.select("pair_id", "prompt_group", "response_a", "response_b"), on="pair_id")
        .join(splits.select("pair_id", "split"), on="pair_id")
        .join(vote_histograms(ballots(votes)).lazy(), on="pair_id")
        .sort("pair_id")
        .collect()
    )


def voted_with(table: pl.DataFrame, a: torch.Tensor, b: torch.Tensor) -> Voted:
    """The rows of `voted_table` with these inputs of their responses, [n, d] each."""
    pairs = VotedPairs(a, b, torch.tensor(counts(table), dtype=torch.float32))
    return Voted(table.select("pair_id", "split", "prompt_group", "diverging"), pairs)


def voted_comparisons(
    comparisons: pl.LazyFrame,
    votes: pl.LazyFrame,
    classes: pl.LazyFrame,
    splits: pl.LazyFrame,
    embeddings: pl.DataFrame,
) -> Voted:
    """The rows of `voted_table` with the inputs of the baseline reward; `embeddings` has all responses."""
    table = voted_table(comparisons, votes, classes, splits)
    return voted_with(table, *(_inputs(table[f"response_{side}"], embeddings) for side in "ab"))


def _inputs(texts: pl.Series, embeddings: pl.DataFrame) -> torch.Tensor:
    return torch.tensor(reward_inputs(texts.to_list(), embeddings), dtype=torch.float32)
