"""Raw feedback into canonical tables: what was compared, who judged it how, and which rows were refused."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.ingest.intake import ingest as ingest_feedback
from preflow.params import Params, ProjectPath
from preflow.schemas import Comparisons, Quarantine, Votes
from preflow.sources.hub import HubDataset


class HubParams(Params):
    """A dataset of the Hugging Face Hub."""

    dataset: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    """Name on the Hub, `owner/name`."""
    revision: str = Field(min_length=1)
    """Commit, tag or branch; only a commit stays the same data."""
    split: str = Field(min_length=1)
    """Which split to read."""


class FeedbackParams(Params):
    """Section `feedback`: where the feedback comes from."""

    path: ProjectPath
    """A file, or a folder of which every data file is a source: jsonl, json, csv, parquet, each also .gz."""
    formats: dict[str, str]
    """Format by file-name pattern, where it should not be recognised by content; {} recognises all."""
    hub: list[HubParams]
    """Datasets of the Hugging Face Hub to read as well; [] for none."""
    max_field_chars: int = Field(gt=0)
    """Rows with a longer text are quarantined; a number of characters above 0."""
    min_score_margin: float = Field(ge=0)
    """Responses that only scores compare make a pair from this difference on; at least 0."""


feedback_files = dg.AssetSpec(
    "feedback_files",
    description="The user's files, as they are: named by `feedback.path` in params.yaml, never written to.",
    metadata={"path": "${feedback.path}"},
    kinds={"file"},
    owners=["team:feedback"],
)


@dg.multi_asset(
    outs={
        "comparisons": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Comparisons)},
            description="One row per compared pair of responses, whatever format it came in.",
            kinds={"polars"},
        ),
        "votes": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Votes), "may_be_empty": True},
            description="One row per judgement, never lost in an average; none where only scores or gold compare.",
            kinds={"polars"},
        ),
        "quarantine": dg.AssetOut(
            io_manager_key="table",
            metadata={"schema": Meta.python_artifact(Quarantine), "may_be_empty": True},
            description="Every input row that was refused, with its place and the reason.",
            kinds={"polars"},
        ),
        "intake": dg.AssetOut(
            io_manager_key="metrics",
            description="Rows in, kept, refused and merged (they add up), by source, reason and flag.",
        ),
    },
    deps=[feedback_files],
)
def ingest(feedback: dg.ResourceParam[FeedbackParams]) -> Iterator[dg.Output]:
    """Raw rows of any known format into comparisons, votes and quarantine; none is lost or altered."""
    with TemporaryDirectory(prefix="preflow-") as scratch:
        ingested = ingest_feedback(
            Path(feedback.path),
            formats=feedback.formats,
            hub=[HubDataset(**hub.model_dump()) for hub in feedback.hub],
            max_field_chars=feedback.max_field_chars,
            min_score_margin=feedback.min_score_margin,
            scratch=Path(scratch),
        )
        yield dg.Output(ingested.comparisons, "comparisons")
        yield dg.Output(ingested.votes, "votes")
        yield dg.Output(ingested.quarantine, "quarantine")
        yield dg.Output(ingested.counts, "intake")
