"""Labelled pairs for the tagger from the world of planted causes: the one place where the reasons are known."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from preflow.audit.votes import summarise_votes
from preflow.ingest.intake import ingest
from preflow.reasons.evidence import pair_evidence
from preflow.reasons.judgements import Carelessness
from preflow.world.causes import CauseRecipe, caused_feedback


@dataclass(frozen=True)
class LabelledPairs:
    """Evidence with the truth about it, as `fit_tagger` takes them."""

    evidence: pl.DataFrame
    """What `pair_evidence` gives."""
    causes: dict[str, list[str]]
    """Planted causes by pair_id."""
    groups: dict[str, str]
    """Prompt group by pair_id."""


def training_recipe(pairs: int) -> CauseRecipe:
    """Six in ten pairs with a cause, and every kind of pair without one, so that the tagger learns to name none."""
    return CauseRecipe(
        n_pairs=pairs,
        shares={"caused": 0.6, "noise": 0.12, "inert": 0.08, "clear": 0.2},
        second=0.3,
        votes_per_pair=4,
        minded=8,
        indifferent=4,
        careless=[(20, 120)] * 3,
        taste=4.0,
        gap=4.0,
    )


def planted_pairs(recipe: CauseRecipe, *, care: Carelessness, shrinkage: float, seed: int) -> LabelledPairs:
    """A world of planted causes, ingested and measured as a user's feedback is; see `caused_feedback` for errors."""
    feedback = caused_feedback(recipe, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        source, scratch = (Path(folder, name) for name in ("source", "scratch"))
        scratch.mkdir()
        feedback.save_to_disk(source)
        found = ingest(source, formats={}, hub=[], max_field_chars=100_000, min_score_margin=0.0, scratch=scratch)
        comparisons, votes = found.comparisons.collect().lazy(), found.votes.collect().lazy()
    # Only the agreement of annotators is used, on which the worker model has no influence.
    _, quality, _ = summarise_votes(comparisons, votes, worker_model="dawid_skene", iterations=1, seed=0)
    evidence = pair_evidence(comparisons, votes, quality.lazy(), care=care, shrinkage=shrinkage)
    causes = dict(feedback.truth.select("pair_id", pl.col("causes").cast(pl.List(pl.String))).iter_rows())
    groups = dict(comparisons.select("pair_id", "prompt_group").collect().iter_rows())
    return LabelledPairs(evidence, causes, groups)
