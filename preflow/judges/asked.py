"""The verdicts of a language model behind an OpenAI-compatible endpoint on pairs of every agreement class."""

from pathlib import Path

import polars as pl

from preflow.comparison.endpoint import ask_for_verdicts
from preflow.endpoint.settings import Endpoint
from preflow.judges.schemas import JudgeVerdicts


def endpoint_judge(
    comparisons: pl.LazyFrame, classes: pl.LazyFrame, *, most: int, endpoint: Endpoint, answers: Path
) -> pl.DataFrame:
    """`JudgeVerdicts` of the model on `pairs_to_ask`, asked with either response first.

    Where one of the two answers is no verdict, both are null: half a pair shows neither a decision nor a position bias.
    See `preflow.comparison.endpoint.ask_for_verdicts` and `pairs_to_ask` for what is raised.
    """
    pairs = (
        comparisons.join(pairs_to_ask(classes, most=most).lazy(), on="pair_id", how="semi").sort("pair_id").collect()
    )
    asked = ask_for_verdicts(pairs, named_by="pair_id", endpoint=endpoint, answers=answers)
    said = pl.when(pl.col("unclear_answer").is_null())
    verdicts = asked.select(verdict=said.then("first_order"), swapped_verdict=said.then("second_order"))
    return JudgeVerdicts.cast(pairs.select("pair_id").hstack(verdicts))


def pairs_to_ask(classes: pl.LazyFrame, *, most: int) -> pl.DataFrame:
    """pair_id of at most `most` pairs, as many of each agreement class as there are, the rarest classes wholly.

    The substantially diverging pairs count as a class of their own beside the other diverging ones. Within a class the
    least ids are taken, which are content hashes and so in an order that says nothing of the texts.

    Raises
    ------
    ValueError
        `most` is below the number of classes that there are.
    """
    of_class = ["agreement_class", "substantial"]
    ranked = classes.select("pair_id", *of_class, turn=pl.col("pair_id").rank("ordinal").over(of_class)).collect()
    if most < (n := ranked.select(of_class).n_unique()):
        raise ValueError(f"{most} pairs cannot cover the {n} agreement classes of these comparisons; raise asked_pairs")
    return ranked.sort("turn", "pair_id").head(most).select("pair_id").sort("pair_id")
