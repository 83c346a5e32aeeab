"""The tables of reward audits; apart from their code, so that knowing them needs no torch."""

import dataframely as dy
import polars as pl

from preflow.schemas import hash_column, messages_column

OUTCOMES = ("rewritten", "unclassified", "no_rewrite", "no_second_rewrite")


class Rewrites(dy.Schema):
    """One row per response and attribute: the response, its rewrite to the other value, and that one's rewrite back."""

    response_id = hash_column("Content hash of prompt and response.", primary_key=True)
    attribute = dy.String(primary_key=True, regex="^[a-z_]+$", description="What is rewritten.")
    prompt_group = hash_column("Hash of the normalised prompt: resample by it.")
    prompt = messages_column("Chat messages before the response.")
    outcome = dy.Enum(OUTCOMES, description="Whether both rewrites reached their targets, or what is missing.")
    has = dy.Bool(nullable=True, description="Whether the original has the attribute; null: it cannot be told.")
    original = dy.String(min_length=1, description="The response.")
    rewrite = dy.String(nullable=True, description="Rewritten to the other value.")
    double = dy.String(nullable=True, description="The rewrite, rewritten back.")

    @dy.rule()
    def both_rewrites_or_a_reason(cls) -> pl.Expr:
        """Only rows with both rewrites are rewritten."""
        both = pl.col("has").is_not_null() & pl.col("rewrite").is_not_null() & pl.col("double").is_not_null()
        return both == (pl.col("outcome") == "rewritten")


def _effect(of: str) -> dict[str, dy.Float64]:
    return {
        name: dy.Float64(nullable=True, description=f"{of}{what}")
        for name, what in (("", ""), ("_low", ", lower end of 95 %"), ("_high", ", upper end of 95 %"))
    }


class RewardedAttributes(dy.Schema):
    """One row per reward and attribute: what the reward pays for the attribute, in its own units."""

    reward = dy.String(primary_key=True, regex="^[a-z_]+$", description="Name of the reward.")
    attribute = dy.String(primary_key=True, regex="^[a-z_]+$", description="Name of the attribute.")
    identified = dy.Bool(description="Whether the effect can be known from these rewrites.")
    reason = dy.String(nullable=True, description="Why not, where it cannot.")
    n1 = dy.Int64(min=0, description="Responses that have the attribute, rewritten twice and scored.")
    n0 = dy.Int64(min=0, description="Responses that have it not.")
    unclassified = dy.Int64(min=0, description="Responses of which it cannot be told.")
    not_rewritten = dy.Int64(min=0, description="Responses without both rewrites.")
    not_scored = dy.Int64(min=0, description="Responses of which the reward cannot read a version.")
    att = _effect("ATT: effect on responses that have it")[""]
    atu = _effect("ATU: effect on responses that have it not")[""]
    ate, ate_low, ate_high = _effect("ATE: effect on all").values()
    ate_in_sd = dy.Float64(
        nullable=True, description="ATE over the standard deviation of the original rewards; null where they are equal."
    )
    naive = dy.Float64(nullable=True, description="Rewards with less without: confounded.")
    single = dy.Float64(nullable=True, description="Originals beside one rewrite: confounded by rewriting.")
    per_doubling, per_doubling_low, per_doubling_high = _effect("Effect per doubling of the length").values()
    asymmetry_p = dy.Float64(
        nullable=True, min=0, max=1, description="Least p, Holm, that rewriting touches more in one direction."
    )
    asymmetric = dy.List(dy.String(), description="Off-target features that differ with the direction at .01.")
    band = dy.Float64(nullable=True, min=0, description="By how much these could move ATE: sum of |b_xi| |gap|.")
