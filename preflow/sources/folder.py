"""Which files under a path hold feedback."""

import re
from dataclasses import dataclass
from pathlib import Path

from preflow.sources.readers import endings, is_data_file
from preflow.sources.records import FeedbackError

SHARD = re.compile(r"-\d{5}-of-\d{5}$")
DATASETS_STATE = {"state.json", "dataset_info.json", "dataset_dict.json"}  # beside the tables of `save_to_disk`


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a reader exists for."""

    path: Path
    name: str  # relative to the path the user gave
    source: str  # name without endings; the shards of one table share it

    @property
    def folder(self) -> str:
        """The folder within the path the user gave; '.' for the path itself."""
        return str(Path(self.name).parent)


def find_files(path: Path) -> tuple[list[DataFile], list[str]]:
    """The data files under `path` in order of name, and the names of the files that hold no feedback.

    Raises FeedbackError if there is no such file or folder, or the file is of no known type.
    """
    if not path.exists():
        raise FeedbackError(f"feedback.path: {path} does not exist; name a file or a folder")
    if path.is_file() and not is_data_file(path.name):
        raise FeedbackError(f"feedback.path: {path} is of no known type; known are jsonl, json, csv, parquet (and .gz)")
    root = path.parent if path.is_file() else path
    paths = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    kept = [one for one in paths if is_data_file(one.name) and one.name not in DATASETS_STATE]
    files = [DataFile(one, one.relative_to(root).as_posix(), _source(one, root)) for one in kept]
    return files, [one.relative_to(root).as_posix() for one in paths if one not in set(kept)]


def _source(path: Path, root: Path) -> str:
    if endings(path.name) == ".arrow" and (path.parent / "state.json").exists():
        return path.parent.resolve().name if path.parent == root else path.parent.relative_to(root).as_posix()
    plain = path.name[: -len(".gz")] if path.name.lower().endswith(".gz") else path.name
    stem = SHARD.sub("", Path(plain).stem)
    return (path.parent.relative_to(root) / stem).as_posix()
