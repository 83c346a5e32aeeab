"""The tables of the comparison; apart from their code, so that knowing them needs no torch."""

import dataframely as dy
import polars as pl

from preflow.policies.schemas import PolicyResponses, seed_column, treatment_column
from preflow.schemas import hash_column

VERDICTS = ("treatment", "baseline", "tie", "unclear")


class JudgedResponses(PolicyResponses):
    """Responses with what each judge gives them; a judge that was not asked gives null."""

    gold = dy.Float64(nullable=True, description="Reward of the program that knows the task, 0 to 10.")
    reward = dy.Float64(nullable=True, description="Reward of the trained reward model, without a unit.")
    words = dy.Int64(min=0, description="Words of the response.")


class EndpointVerdicts(dy.Schema):
    """One row per response compared by a language model with the baseline's response to the same prompt."""

    treatment = treatment_column()
    baseline = dy.String(regex="^[a-z0-9_]+$", description="The policy it is compared with.")
    seed = seed_column()
    prompt_group = hash_column("Hash of the normalised prompt: resample and pair by it.")
    sample_ = dy.Int64(alias="sample", min=0, description="Which response of both policies.")
    first_order = dy.Enum(VERDICTS, description="Verdict with the treatment's response first; unclear: none was given.")
    second_order = dy.Enum(VERDICTS, description="Verdict with the baseline's response first; unclear: none was given.")
    unclear_answer = dy.String(
        nullable=True, description="How the first answer began that was no verdict, or why it was refused; else null."
    )
    win = dy.Float64(min=0, max=1, description="1: both orders prefer the treatment; 0: the baseline; else 0.5.")

    @dy.rule()
    def a_win_needs_both_orders(cls) -> pl.Expr:
        """A preference that depends on the order is none."""
        both = pl.when(pl.col("first_order") == pl.col("second_order")).then(pl.col("first_order").cast(pl.String))
        return pl.col("win") == both.replace_strict({"treatment": 1.0, "baseline": 0.0}, default=0.5)

    @dy.rule()
    def an_unclear_answer_is_shown(cls) -> pl.Expr:
        """Whoever counts unclear verdicts can see what was said instead."""
        unclear = (pl.col("first_order") == "unclear") | (pl.col("second_order") == "unclear")
        return unclear == pl.col("unclear_answer").is_not_null()
