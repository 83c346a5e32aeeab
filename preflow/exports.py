"""Training data in the form trainers read: TRL's conversational preference format, in parquet and in jsonl.

A row has `prompt`, `chosen` and `rejected` as lists of messages, so a trainer applies its own chat template; the other
columns ride along for weighting and margins. This module must stay free of `datasets`: it only writes what that reads.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from preflow.schemas import SPLITS

COLUMNS = ("prompt", "chosen", "rejected", "pair_id", "vote_share", "margin", "score_chosen", "score_rejected")
INTRODUCTION = """\
Preference pairs in TRL's conversational format, written by Preflow: `prompt`, `chosen` and `rejected` are lists of
messages. `vote_share` is the share of votes for `chosen`, ties half; scores are on the source's own scale and null
where it has none. Rows of one prompt and near duplicates never straddle two splits."""


@dataclass(frozen=True)
class PreferenceDataset:
    """The rows of every split and the card that describes them."""

    splits: dict[str, pl.DataFrame]
    card: str

    def save_to_disk(self, folder: Path) -> None:
        """Write `<split>.parquet`, `<split>.jsonl` and `README.md`; the same pairs give the same bytes."""
        folder.mkdir(parents=True, exist_ok=True)
        for split, rows in self.splits.items():
            rows.write_parquet(folder / f"{split}.parquet")
            rows.write_ndjson(folder / f"{split}.jsonl")
        (folder / "README.md").write_text(self.card, encoding="utf-8")


def export_splits(pairs: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The preference pairs of each split, sorted by `pair_id`; a split without pairs is an empty frame.

    A pair without a prompt gets an empty list of messages, as its source had none.
    """
    answers = [_assistant(side) for side in ("chosen", "rejected")]
    plain_roles = pl.col("prompt").cast(pl.List(pl.Struct({"role": pl.String, "content": pl.String})))
    rows = pairs.sort("pair_id").with_columns(plain_roles, *answers)
    return {split: rows.filter(pl.col("split") == split).select(COLUMNS) for split in SPLITS}


def _assistant(side: str) -> pl.Expr:
    """A response as the one assistant message it is."""
    message = pl.struct(pl.lit("assistant").alias("role"), pl.col(side).alias("content"))
    return pl.concat_list(message).alias(side)


def dataset_card(pairs: pl.DataFrame, *, name: str, licence: str = "unknown") -> str:
    """README.md of an exported dataset: the header that `datasets` and the Hub read, then what the pairs are.

    `licence` is the one of the feedback itself, which only its owner knows; an identifier such as `cc-by-4.0`.
    """
    present = [split for split in SPLITS if (pairs["split"] == split).any()]
    header = [
        f"license: {json.dumps(licence)}",
        f"pretty_name: {json.dumps(name, ensure_ascii=False)}",
        "tags: [preference, trl]",
        *_data_files(present),
    ]
    body = [
        f"# {name}",
        "",
        INTRODUCTION,
        "",
        *(line for column in ("split", "source", "label_source") for line in _counted(pairs, column)),
        f"Licence of the feedback: {licence}.",
        "",
        "`datasets.load_dataset(folder)` reads the parquet files. The jsonl files hold the same rows:",
        '`load_dataset("json", data_files={"train": "train.jsonl"})`.',
        "",
    ]
    return "\n".join(["---", *header, "---", "", *body])


def _data_files(present: list[str]) -> list[str]:
    """The mapping from split to file. A split without rows is left out: `datasets` refuses to load an empty one."""
    if not present:
        return []
    files = [line for split in present for line in (f"  - split: {split}", f"    path: {split}.parquet")]
    return ["configs:", "- config_name: default", "  data_files:", *files]


def _counted(pairs: pl.DataFrame, by: str) -> list[str]:
    """A markdown table of pairs by a column."""
    counts = pairs.group_by(by).agg(pl.len()).sort(by)
    rows = [f"| {' '.join(value.replace('|', '/').split())} | {count:,} |" for value, count in counts.iter_rows()]
    return [f"| {by.replace('_', ' ')} | pairs |", "|---|---:|", *rows, ""]
