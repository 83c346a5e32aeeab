"""From comparisons to what is trained on."""

from pathlib import Path
from typing import Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.pairs import Verdicts, identical_when_truncated, outcome_counts, preference_pairs, verdicts
from preflow.params import Params, ProjectPath
from preflow.schemas import PreferencePairs
from preflow.tokens import load_tokenizer
from preflow.triage.review import apply_overrides, overrides, read_queue
from preflow.triage.schemas import Overrides, RefusedOverrides
from preflow.weights import model_folder


class PairsParams(Params):
    """Section `pairs`: what decides which response is chosen."""

    label: Literal["majority", "worker_model", "gold"]
    """What decides where a comparison has several labels: majority, worker_model or gold."""
    min_agreement: float = Field(ge=0, le=1)
    """Comparisons decided by votes that agree less (1 - normalised entropy) make no pair; 0 to 1."""
    tokenizer: str
    """Whose tokens count: `package:NAME`, a folder, or `hub:OWNER/NAME@REVISION`."""
    max_tokens: int = Field(gt=0)
    """Pairs that are identical in their first tokens are flagged; a number of tokens above 0."""
    overrides: ProjectPath
    """A filled review queue, .csv or .jsonl, whose decisions replace what votes and scores say."""


override_file = dg.AssetSpec(
    "override_file",
    description="Decisions of reviewers: named by `pairs.overrides` in params.yaml, never written to.",
    metadata={"path": "${pairs.overrides}"},
    kinds={"file"},
    owners=["team:pairs"],
)


@dg.multi_asset(
    outs={
        "preference_pairs": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(PreferencePairs)},
            description="Chosen and rejected, with the weight of the votes and every doubt as a flag.",
            kinds={"polars"},
        ),
        "decisions": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Verdicts)},
            description="What each comparison comes to, and what decided it.",
            kinds={"polars"},
        ),
        "overrides": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Overrides), "may_be_empty": True},
            description="Decisions of reviewers, each applied.",
            kinds={"polars"},
        ),
        "refused_overrides": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(RefusedOverrides), "may_be_empty": True},
            description="Decisions of reviewers that could not be applied, with the reason.",
            kinds={"polars"},
        ),
        "outcomes": dg.AssetOut(
            io_manager_key="metrics",
            description="Comparisons that became pairs, were ties, or stayed undecided; they add up to all.",
        ),
    },
    deps=[override_file],
)
def decide(
    comparisons: pl.LazyFrame,
    vote_summary: pl.LazyFrame,
    splits: pl.LazyFrame,
    contradictions: pl.LazyFrame,
    pairs: dg.ResourceParam[PairsParams],
) -> tuple[pl.LazyFrame, pl.LazyFrame, pl.LazyFrame, pl.LazyFrame, dict[str, int]]:
    """The preferred response of every comparison that has one; ties and undecided ones are counted, not lost."""
    tokenizer = load_tokenizer(model_folder(pairs.tokenizer))
    truncated = identical_when_truncated(comparisons, tokenizer=tokenizer, max_tokens=pairs.max_tokens)
    voted = verdicts(comparisons, vote_summary, label=pairs.label, min_agreement=pairs.min_agreement)
    given, refused = overrides(read_queue(Path(pairs.overrides)), comparisons)
    decided = apply_overrides(voted.lazy(), given.lazy()).lazy()
    made = preference_pairs(comparisons, decided, vote_summary, splits, contradictions, truncated.lazy())
    return made.lazy(), decided, given.lazy(), refused.lazy(), outcome_counts(decided)
