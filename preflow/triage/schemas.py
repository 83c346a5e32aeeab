"""The tables of triage; apart from their code, so that knowing them needs nothing else."""

import dataframely as dy
import polars as pl

from preflow.divergence.schemas import SIDES, class_column
from preflow.schemas import CHOICES, hash_column, pair_id_column

RECOMMENDATIONS = ("keep", "relabel", "soft_label", "split_by_group", "drop", "review")
DECISIONS = (*CHOICES, "drop")
"""What a reviewer may decide: the better response, that neither is, or that the pair is of no use."""


class Triage(dy.Schema):
    """One row per comparison: all that is known of it, and what to do with it. Null where nothing was measured."""

    pair_id = pair_id_column()
    source = dy.String(min_length=1, description="Name of the source.")
    label = dy.Enum(CHOICES, nullable=True, description="The recorded verdict; null where it is undecided.")
    label_source = dy.String(nullable=True, description="What decided the label.")
    n_votes = dy.Int64(min=0, description="Votes on the comparison.")
    agreement = dy.Float64(nullable=True, min=0, max=1, description="1 minus the normalised entropy of the votes.")
    majority = dy.Enum(CHOICES, nullable=True, description="What more votes chose than anything else.")
    worker_share = dy.Float64(nullable=True, min=0, max=1, description="P(label) by the worker-quality model.")
    agreement_class = class_column("all annotators")
    careful_class = class_column("careful annotators")
    careful_preferred = dy.Enum(SIDES, nullable=True, description="What the careful annotators agree on.")
    substantial = dy.Bool(description="Diverging with a stated clear preference on each side.")
    groups_oppose = dy.Bool(description="Whether groups of like-minded annotators prefer different responses.")
    reasons = dy.List(
        dy.Struct({"label": dy.String(), "source": dy.String(), "probability": dy.Float64(nullable=True)}),
        description="Causes of the divergence, by name, each with the strongest source that found it.",
    )
    reward_gap = dy.Float64(nullable=True, description="Reward of response_a minus that of response_b.")
    gap_spread = dy.Float64(
        nullable=True, min=0, description="sqrt(sigma_a^2 + sigma_b^2): spread of the gap over annotators."
    )
    opposite_sides = dy.Float64(
        nullable=True, min=0, max=1, description="Predicted P(two annotators prefer different responses)."
    )
    difficulty = dy.Float64(nullable=True, min=0, description="Held-out DPO loss.")
    flip_suspicion = dy.Float64(nullable=True, min=0, max=1, description="P(label is wrong) by held-out policies.")
    suspected_flip = dy.Float64(
        nullable=True, min=0, max=1, description="P(label is turned round) by all evidence together."
    )
    exact_cluster = hash_column("Least pair_id of the exact duplicates.")
    near_cluster = hash_column("Least pair_id of the near duplicates.")
    n_exact = dy.Int64(min=1, description="Comparisons in the exact cluster.")
    n_near = dy.Int64(min=1, description="Comparisons in the near cluster.")
    repeated = dy.Bool(description="Whether another row of the exact cluster stands for it.")
    contradicted = dy.Bool(description="Whether an exact duplicate is judged the other way.")
    own_vote_contradiction = dy.Bool(description="Whether an annotator voted both ways.")
    recommendation = dy.Enum(RECOMMENDATIONS, description="What to do with the pair.")
    rule = dy.String(regex="^[a-z_]+$", description="The rule that said so.")
    expected_value = dy.Float64(min=0, description="Of a second look: P(label turned) times the pull of the label.")

    @dy.rule()
    def only_preferences_can_be_flipped(cls) -> pl.Expr:
        """A tie has no other side."""
        return pl.col("suspected_flip").is_null() | pl.col("label").is_in(SIDES)


class GroupPreferences(dy.Schema):
    """One row per pair and group of annotators: what most of the group prefer."""

    pair_id = pair_id_column()
    cluster = dy.Int64(primary_key=True, min=0, description="Group of annotators.")
    n_annotators = dy.Int64(min=1, description="Annotators of the group who voted on the pair.")
    preferred = dy.Enum(CHOICES, description="What more of them chose than anything else; tie where nothing leads.")


class Overrides(dy.Schema):
    """One row per pair and reviewer: the decision of a second look. All decisions on a pair are the same."""

    pair_id = pair_id_column()
    decision = dy.Enum(DECISIONS, description="The better response, tie, or drop.")
    reviewer = dy.String(primary_key=True, min_length=1, description="Who decided.")
    note = dy.String(nullable=True, description="Why, in the reviewer's words.")


class RefusedOverrides(dy.Schema):
    """One row per line of a review file that was refused, with the reason and the line as it stood."""

    row = dy.Int64(primary_key=True, min=1, description="Row of the file, from 1, headings not counted.")
    reason = dy.Enum(
        ["unknown_pair", "unknown_decision", "no_reviewer", "repeated", "conflicting_decisions"],
        description="Why it was refused.",
    )
    pair_id = dy.String(nullable=True, description="As it stood.")
    decision = dy.String(nullable=True, description="As it stood.")
    reviewer = dy.String(nullable=True, description="As it stood.")
    note = dy.String(nullable=True, description="As it stood.")
