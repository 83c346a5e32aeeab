"""Tables of the audit; apart from its code, so that knowing them needs no statistics package."""

import dataframely as dy
import polars as pl

from preflow.schemas import CHOICES, hash_column, pair_id_column, split_column


class DuplicateClusters(dy.Schema):
    """One row per comparison: which others say the same, exactly or nearly."""

    pair_id = pair_id_column()
    exact_cluster = hash_column("Least pair_id with the same normalised prompt and responses, in either order.")
    near_cluster = hash_column("Least pair_id of the connected near-duplicates (estimated Jaccard of word shingles).")
    n_exact = dy.Int64(min=1, description="Comparisons in the exact cluster.")
    n_near = dy.Int64(min=1, description="Comparisons in the near cluster.")

    @dy.rule()
    def near_contains_exact(cls) -> pl.Expr:
        """An exact duplicate is also a near one."""
        return pl.col("n_near") >= pl.col("n_exact")


class Contradictions(dy.Schema):
    """Comparisons of one exact cluster whose majorities oppose each other, and annotators who oppose themselves."""

    pair_id = pair_id_column()
    other_pair_id = dy.String(primary_key=True, description="The comparison it contradicts; itself for own_vote.")
    kind = dy.Enum(["mirrored", "same_order", "own_vote"], description="How the two rows contradict.")
    detail = dy.String(description="The two verdicts in words.")


class Splits(dy.Schema):
    """One row per comparison: its split. Prompt groups and near-duplicate clusters are never divided."""

    pair_id = pair_id_column()
    split_group = hash_column("Least prompt_group of the connected prompt groups and near-duplicate clusters.")
    split = split_column()


class VoteSummary(dy.Schema):
    """One row per voted comparison: the vote picture and two ways of reading it."""

    pair_id = pair_id_column()
    n_votes = dy.Int64(min=1, description="Votes on the pair.")
    n_a = dy.Int64(min=0, description="Votes for response_a.")
    n_b = dy.Int64(min=0, description="Votes for response_b.")
    n_tie = dy.Int64(min=0, description="Tie votes.")
    share_a = dy.Float64(min=0, max=1, description="Share of votes for response_a, a tie counting half.")
    entropy = dy.Float64(min=0, max=1, description="Entropy of the three shares, in units of log 3.")
    majority = dy.Enum(CHOICES, description="What more votes chose than anything else; tie where nothing leads.")
    worker_label = dy.Enum(CHOICES, description="Most probable label under the worker-quality model.")
    worker_share_a = dy.Float64(min=0, max=1, description="P(a) + P(tie)/2 under the worker-quality model.")

    @dy.rule()
    def counts_add_up(cls) -> pl.Expr:
        """Every vote is counted once."""
        return pl.col("n_a") + pl.col("n_b") + pl.col("n_tie") == pl.col("n_votes")


class AnnotatorQuality(dy.Schema):
    """One row per annotator: how often they agree with the others, with an interval."""

    annotator = dy.String(primary_key=True, min_length=1, description="Who judged.")
    annotator_kind = dy.Enum(["person", "model", "label"], description="A person, a judge model or a label.")
    n_votes = dy.Int64(min=1, description="Votes given.")
    n_compared = dy.Int64(min=0, description="Votes on pairs where the other annotators have a majority.")
    agreement = dy.Float64(nullable=True, min=0, max=1, description="Share agreeing with the majority of the others.")
    agreement_low = dy.Float64(nullable=True, min=0, max=1, description="Wilson 95 % interval, lower end.")
    agreement_high = dy.Float64(nullable=True, min=0, max=1, description="Wilson 95 % interval, upper end.")
    worker_accuracy = dy.Float64(min=0, max=1, description="P(correct vote) under the worker-quality model.")
    gold_accuracy = dy.Float64(
        nullable=True, min=0, max=1, description="Share right where the gold is known, ties half."
    )
    share_a = dy.Float64(min=0, max=1, description="Share of votes for response_a, a tie counting half.")
    share_first = dy.Float64(
        nullable=True, min=0, max=1, description="Share of decided votes for the response shown first; 1/2 if unbiased."
    )
    share_tie = dy.Float64(min=0, max=1, description="Share of tie votes.")
