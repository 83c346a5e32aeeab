"""The review queue as files for people."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from preflow.triage.review import write_queue


@dataclass(frozen=True)
class ReviewQueue:
    """What `preflow.triage.review.review_queue` gives, to be filled in."""

    rows: pl.DataFrame

    def save_to_disk(self, folder: Path) -> None:
        """Write `queue.csv`, which is safe to open in a spreadsheet, and `queue.jsonl`."""
        for name in ("queue.csv", "queue.jsonl"):
            write_queue(self.rows, folder / name)
