"""The tables of divergence; apart from their code, so that knowing them needs no torch."""

import dataframely as dy
import polars as pl

from preflow.schemas import pair_id_column

SIDES = ("a", "b")
BINS = ("b_clear", "b_slight", "tie", "a_slight", "a_clear")
"""The five ordinal bins of reward(a) - reward(b), from b to a."""
UNSTATED = ("b_unstated", "a_unstated")
"""Preferences whose strength is not stated: slight or clear, it is not known which."""
OUTCOMES = BINS + UNSTATED
CLASSES = ("preference", "tie", "diverging", "residual", "too_few_votes")


def class_column(whose: str) -> dy.Enum:
    """An agreement class and the votes it comes from."""
    return dy.Enum(CLASSES, description=f"Agreement class by {whose}; too_few_votes where fewer than two voted.")


def preferred_column(whose: str) -> dy.Enum:
    """The preferred side, if any."""
    return dy.Enum(SIDES, nullable=True, description=f"The preferred response by {whose}, where the class has one.")


class VoteHistograms(dy.Schema):
    """One row per voted pair: how many annotators gave each outcome. An annotator counts once a pair."""

    pair_id = pair_id_column()
    b_clear = dy.Int64(min=0, description="Annotators who prefer response_b clearly or more.")
    b_slight = dy.Int64(min=0, description="Annotators who prefer response_b slightly.")
    tie = dy.Int64(min=0, description="Annotators who prefer neither.")
    a_slight = dy.Int64(min=0, description="Annotators who prefer response_a slightly.")
    a_clear = dy.Int64(min=0, description="Annotators who prefer response_a clearly or more.")
    b_unstated = dy.Int64(min=0, description="Annotators who prefer response_b without saying how much.")
    a_unstated = dy.Int64(min=0, description="Annotators who prefer response_a without saying how much.")

    @dy.rule()
    def somebody_voted(cls) -> pl.Expr:
        """A pair without votes has no histogram."""
        return pl.sum_horizontal(OUTCOMES) > 0


class AgreementClasses(dy.Schema):
    """One row per comparison: whether its annotators agree, by all of them and by the careful ones."""

    pair_id = pair_id_column()
    n_annotators = dy.Int64(min=0, description="Annotators who voted on the pair.")
    agreement_class = class_column("all annotators")
    preferred = preferred_column("all annotators")
    substantial = dy.Bool(description="Diverging with a stated clear preference on each side.")
    n_careless = dy.Int64(min=0, description="Of n_annotators, those left out as careless.")
    careful_class = class_column("careful annotators")
    careful_preferred = preferred_column("careful annotators")
    careful_substantial = dy.Bool(description="As substantial, by careful annotators.")

    @dy.rule()
    def substantial_is_diverging(cls) -> pl.Expr:
        """Substantial divergence is a kind of divergence."""
        return ~pl.col("substantial") | (pl.col("agreement_class") == "diverging")

    @dy.rule()
    def only_preferences_have_a_side(cls) -> pl.Expr:
        """Only where nobody objects is a side preferred."""
        return pl.col("preferred").is_null() == (pl.col("agreement_class") != "preference")


class AnnotatorClusters(dy.Schema):
    """One row per annotator: the group of people they vote like, where there are such groups."""

    annotator = dy.String(primary_key=True, min_length=1, description="Who judged.")
    n_contested = dy.Int64(min=0, description="Votes on pairs on which the annotators differ.")
    n_partners = dy.Int64(min=0, description="Other annotators with enough contested pairs in common.")
    cluster = dy.Int64(
        nullable=True, min=0, description="Group, 0 the largest; null without partners or where there are no groups."
    )


class GroupAgreement(dy.Schema):
    """One row per annotator: how often they agree with the others of their own group."""

    annotator = dy.String(primary_key=True, min_length=1, description="Who judged.")
    cluster = dy.Int64(nullable=True, min=0, description="Their group; null: compared with all others.")
    n_compared = dy.Int64(min=0, description="Pairs on which another of the group voted.")
    agreement = dy.Float64(
        nullable=True, min=0, max=1, description="Mean share of the group's others who chose the same; null of none."
    )
    agreement_high = dy.Float64(min=0, max=1, description="Wilson 95 % interval over pairs, upper end.")


class PredictedDivergence(dy.Schema):
    """One row per pair: what a distributional reward expects its annotators to say."""

    pair_id = pair_id_column()
    mu_a = dy.Float64(description="Mean reward of response_a.")
    mu_b = dy.Float64(description="Mean reward of response_b.")
    sigma_a = dy.Float64(min=0, description="Standard deviation of the reward of response_a over annotators.")
    sigma_b = dy.Float64(min=0, description="Standard deviation of the reward of response_b over annotators.")
    p_b_clear = dy.Float64(min=0, max=1, description="P(response_b clearly better).")
    p_b_slight = dy.Float64(min=0, max=1, description="P(response_b slightly better).")
    p_tie = dy.Float64(min=0, max=1, description="P(tie).")
    p_a_slight = dy.Float64(min=0, max=1, description="P(response_a slightly better).")
    p_a_clear = dy.Float64(min=0, max=1, description="P(response_a clearly better).")
    diverging_score = dy.Float64(description="lambda (sigma_a + sigma_b) - |mu_a - mu_b|; high: people will differ.")
    opposite_sides = dy.Float64(min=0, max=1, description="P(two annotators prefer different responses).")

    @dy.rule()
    def bins_are_a_distribution(cls) -> pl.Expr:
        """The five bins are all that can happen."""
        return (pl.sum_horizontal(f"p_{name}" for name in BINS) - 1).abs() < 1e-6
