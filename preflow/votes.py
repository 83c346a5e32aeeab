"""What the votes say: aggregation, agreement and the quality of each annotator."""

import dataframely as dy
import polars as pl

from preflow.schemas import CHOICES, pair_id_column


class VoteSummary(dy.Schema):
    """One row per voted comparison: the vote picture and two ways of reading it."""

    pair_id = pair_id_column()
    n_votes = dy.Int64(min=1, description="Votes on the pair.")
    n_a = dy.Int64(min=0, description="Votes for response_a.")
    n_b = dy.Int64(min=0, description="Votes for response_b.")
    n_tie = dy.Int64(min=0, description="Tie votes.")
    share_a = dy.Float64(min=0, max=1, description="Share of votes for response_a, a tie counting half.")
    entropy = dy.Float64(min=0, max=1, description="Entropy of the three shares, in units of log 3.")
    majority = dy.Enum(CHOICES, description="Plurality of the votes; equal counts for a and b are a tie.")
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
    gold_accuracy = dy.Float64(nullable=True, min=0, max=1, description="Share right where the truth is known.")
    share_a = dy.Float64(min=0, max=1, description="Share of votes for response_a; far from 1/2 hints at bias.")
    share_tie = dy.Float64(min=0, max=1, description="Share of tie votes.")
