"""The tables of the treatments; apart from their code, so that knowing them needs no torch."""

import dataframely as dy
import polars as pl

from preflow.schemas import PreferencePairs, hash_column, messages_column, pair_id_column, split_column


def score_column(side: str) -> dy.Float64:
    """A score of one response on whatever scale its attribute has."""
    return dy.Float64(nullable=True, description=f"Score of {side}; null where there is none.")


class TreatedPairs(dy.Schema):
    """One row per pair that a treatment made, and one per pair that it left out: the form of every derived dataset.

    A trainer takes the kept rows, see `training_rows`. What else is known of a pair is found through source_pair_id.
    """

    pair_id = pair_id_column()
    source_pair_id = hash_column("The pair that the row was made from; equal to pair_id where its texts were kept.")
    treatment = dy.String(
        primary_key=True, regex="^[a-z0-9_]+$", description="What made the row, for instance reward_augmented."
    )
    kept = dy.Bool(description="Whether the row is trained on.")
    reason = dy.String(regex="^[a-z0-9_]+$", description="Why the row was made, kept or left out.")
    prompt = messages_column("Chat messages before the responses, with the goal where there is one.")
    chosen = dy.String(description="The response to prefer under this prompt.")
    rejected = dy.String(description="The other response.")
    chosen_is = dy.Enum(["a", "b"], description="Which side of the comparison is chosen in this row.")
    score_chosen = score_column("chosen")
    score_rejected = score_column("rejected")
    share = dy.Float64(
        nullable=True, min=0, max=1, description="Share of the votes for chosen, as a soft label; null: a hard label."
    )
    goal = dy.List(
        dy.Struct({"attribute": dy.String(), "value": dy.Float64()}),
        nullable=True,
        description="Target scores that the prompt asks for; null where it asks for none.",
    )
    order = dy.Int64(
        nullable=True, min=0, description="Place in a fixed order of training; null: the trainer shuffles."
    )
    prompt_group = hash_column("Hash of the normalised prompt of the source: resample and split by it.")
    split = split_column()
    source = dy.String(min_length=1, description="Name of the source.")

    @dy.rule()
    def kept_responses_differ(cls) -> pl.Expr:
        """A response preferred to itself teaches nothing."""
        return ~pl.col("kept") | (pl.col("chosen") != pl.col("rejected"))

    @dy.rule()
    def only_kept_rows_are_ordered(cls) -> pl.Expr:
        """A row that is left out has no place in the order."""
        return pl.col("kept") | pl.col("order").is_null()


CARRIED = tuple(name for name in TreatedPairs.column_names() if name in PreferencePairs.column_names())
"""What a treatment takes over from preference pairs, or from pairs that another treatment made."""


class PairScores(dy.Schema):
    """One row per pair and attribute: what each response is worth, whoever says so (source, model, policy)."""

    pair_id = pair_id_column()
    attribute = dy.String(primary_key=True, min_length=1, description="What is scored, as a prompt would name it.")
    score_chosen = score_column("chosen")
    score_rejected = score_column("rejected")


class HeldOutLosses(dy.Schema):
    """One row per pair, seed and checkpoint: its DPO loss under the model of that seed that did not train on it."""

    pair_id = pair_id_column()
    seed = dy.Int64(primary_key=True, min=0, description="Seed of the halves and of the training.")
    checkpoint = dy.Int64(primary_key=True, min=1, description="Which evaluation of the run, from 1.")
    loss = dy.Float64(min=0, description="-log sigmoid(beta * margin), without label smoothing.")


class DifficultyScores(dy.Schema):
    """One row per scored pair: how hard it is for one model, and how sure that is."""

    pair_id = pair_id_column()
    scored_by = hash_column("Hash of the model's weights and of the scoring configuration.", primary_key=True)
    difficulty = dy.Float64(min=0, description="Held-out DPO loss, mean over seeds and checkpoints (validation loss).")
    spread = dy.Float64(nullable=True, min=0, description="Standard deviation over seeds; null with one seed.")
    flip_suspicion = dy.Float64(
        min=0, max=1, description="P(label is wrong) by the held-out model that doubts it least."
    )
    learned_at = dy.Int64(nullable=True, min=1, description="First checkpoint learned from there on; null: never.")


def training_rows(treated: pl.DataFrame) -> pl.DataFrame:
    """The rows to train on: in the order that the treatment fixed, else by pair_id."""
    return treated.filter("kept").sort("order", "pair_id")


def kept_rows(treated: pl.LazyFrame, split: str) -> pl.DataFrame:
    """The kept rows of one split."""
    return treated.filter(pl.col("kept"), pl.col("split") == split).collect()
