"""The canonical feedback model: what a comparison, a vote, a preference pair and a refused row are.

The tables that every stage shares are declared here; a table of one method is declared in that method's module. From a
declaration follow the strict check on every write, the columns shown in the Dagster UI and the Great Expectations
suite. Frames are polars; ids are content hashes, so the same feedback has the same id wherever it came from.
"""

import dataframely as dy
import polars as pl

CHOICES = ("a", "b", "tie")
SPLITS = ("train", "validation", "test")
ROLES = ("system", "user", "assistant", "tool")


def hash_column(description: str, *, primary_key: bool = False) -> dy.String:
    """A content hash: 32 lowercase hexadecimal digits (128 bits)."""
    return dy.String(primary_key=primary_key, regex="^[0-9a-f]{32}$", description=description)


def pair_id_column(*, primary_key: bool = True) -> dy.String:
    """The key of a comparison."""
    return hash_column("Content hash of prompt, response_a and response_b.", primary_key=primary_key)


def messages_column(description: str) -> dy.List:
    """A list of chat messages, as every trainer's conversational format has it."""
    message = dy.Struct({"role": dy.Enum(ROLES), "content": dy.String()})
    return dy.List(message, description=description)


def flags_column() -> dy.List:
    """Named doubts about a row that was kept."""
    return dy.List(dy.String(), description="Named doubts about a row that was kept.")


def split_column() -> dy.Enum:
    """The split of a row."""
    return dy.Enum(SPLITS, description="Which part of the data the pair belongs to.")


class Comparisons(dy.Schema):
    """One row per compared pair of responses, in the orientation of the source."""

    pair_id = pair_id_column()
    prompt = messages_column("Chat messages before the responses; empty where the source has no prompt.")
    response_a = dy.String(min_length=1, description="First response, byte for byte.")
    response_b = dy.String(min_length=1, description="Second response, byte for byte.")
    prompt_group = hash_column("Hash of the normalised prompt: rows that share it never straddle two splits.")
    score_a = dy.Float64(nullable=True, description="Score of response_a on the source's own scale.")
    score_b = dy.Float64(nullable=True, description="Score of response_b on the source's own scale.")
    gold = dy.Enum(CHOICES, nullable=True, description="Verified better response, where the source has one.")
    model_a = dy.String(nullable=True, description="What wrote response_a, where known.")
    model_b = dy.String(nullable=True, description="What wrote response_b, where known.")
    source = dy.String(min_length=1, description="Name of the source: its file or folder without endings.")
    source_file = dy.String(min_length=1, description="File of the first row that stated the comparison.")
    source_line = dy.Int64(min=1, description="Line (or element, from 1) in source_file.")
    extra = dy.String(nullable=True, description="JSON of the source's fields that have no column here.")
    flags = flags_column()

    @dy.rule()
    def responses_differ(cls) -> pl.Expr:
        """A response compared with itself carries no preference."""
        return pl.col("response_a") != pl.col("response_b")


class Votes(dy.Schema):
    """One row per judgement of a comparison by a person, a judge model or the data set's own label."""

    vote_id = hash_column("Content hash of the judgement and its position in the source.", primary_key=True)
    pair_id = pair_id_column(primary_key=False)
    annotator = dy.String(min_length=1, description="Who judged; stable within a source.")
    annotator_kind = dy.Enum(["person", "model", "label"], description="A person, a judge model or a label.")
    choice = dy.Enum(CHOICES, description="The better response, or tie.")
    strength = dy.Int64(nullable=True, min=1, max=3, description="1 slight, 2 clear, 3 overwhelming; null if unstated.")
    reason = dy.String(nullable=True, description="The annotator's own words.")
    shown_first = dy.Enum(["a", "b"], nullable=True, description="Which response the annotator saw first, where known.")
    time = dy.Datetime(nullable=True, time_unit="us", time_zone="UTC", description="When the vote was given (UTC).")
    seconds = dy.Float64(nullable=True, min=0, description="Time spent on the vote, in seconds.")
    source_file = dy.String(min_length=1, description="File that holds the vote.")
    source_line = dy.Int64(min=1, description="Line (or element, from 1) in source_file.")
    flags = flags_column()


class Quarantine(dy.Schema):
    """One row per input row that was refused, with where it stood and why."""

    source = dy.String(min_length=1, description="Name of the source.")
    source_file = dy.String(primary_key=True, description="File of the refused row.")
    source_line = dy.Int64(primary_key=True, min=0, description="Line or element, from 1; 0 for the file as a whole.")
    part = dy.Int64(primary_key=True, min=0, description="Which refusal of that row, from 0.")
    reason = dy.String(min_length=1, regex="^[a-z0-9_]+$", description="Named reason.")
    detail = dy.String(description="What exactly was found, in words.")
    raw = dy.String(nullable=True, description="The refused row as it stood, cut at the size cap.")


class PreferencePairs(dy.Schema):
    """What is trained on: one row per comparison that has a preferred response."""

    pair_id = pair_id_column()
    prompt = messages_column("Chat messages before the responses.")
    chosen = dy.String(min_length=1, description="Preferred response.")
    rejected = dy.String(min_length=1, description="The other response.")
    chosen_is = dy.Enum(["a", "b"], description="Which side of the comparison was chosen.")
    label_source = dy.Enum(["gold", "majority", "worker_model", "scores"], description="What decided.")
    n_votes = dy.Int64(min=0, description="Votes on the comparison.")
    vote_share = dy.Float64(
        min=0,
        max=1,
        description="Weight of chosen: share of votes (ties half), P(chosen) of the worker model, 1 by gold or scores.",
    )
    agreement = dy.Float64(min=0, max=1, description="1 minus the normalised entropy of the votes.")
    score_chosen = dy.Float64(nullable=True, description="Source's score of chosen.")
    score_rejected = dy.Float64(nullable=True, description="Source's score of rejected.")
    margin = dy.Float64(nullable=True, description="score_chosen - score_rejected.")
    prompt_group = hash_column("Hash of the normalised prompt.")
    split = split_column()
    source = dy.String(min_length=1, description="Name of the source.")
    flags = flags_column()
