"""Training checkpoints that survive kill -9: written aside, sealed with the SHA-256 of each file, then renamed.

Only a sealed checkpoint of the same run is resumed from. A newest one that is truncated, altered or unsealed is passed
over for the one before it, of which one is always kept.
"""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

SEAL = "seal.json"
KEPT = 2

_NAME = re.compile("checkpoint-([0-9]+)")


class OtherRunError(ValueError):
    """The folder holds checkpoints of a run with other data, weights or settings."""


def publish(aside: Path, folder: Path, run: str) -> None:
    """Seal the finished checkpoint `aside` as one of `run`, move it into `folder` and delete all but the newest two."""
    files = {path.relative_to(aside).as_posix(): _sha256(path) for path in sorted(aside.rglob("*")) if path.is_file()}
    (aside / SEAL).write_text(json.dumps({"run": run, "files": files}, indent=1))
    for path in [*aside.rglob("*"), aside]:
        _sync(path)
    target = folder / aside.name
    if target.exists():  # one that was passed over when this run resumed
        shutil.rmtree(target)
    aside.rename(target)
    _sync(folder)
    for old in checkpoints(folder)[KEPT:]:
        shutil.rmtree(old)


def newest(folder: Path, run: str) -> Path | None:
    """The newest whole checkpoint in `folder`, or None.

    Raises
    ------
    OtherRunError
        It belongs to another run: resuming would mix two trainings.
    """
    for path in checkpoints(folder):
        seal = _seal(path)
        if seal is None or any(
            not (path / name).is_file() or _sha256(path / name) != sha for name, sha in seal["files"].items()
        ):
            continue
        if seal["run"] != run:
            raise OtherRunError(
                f"{path} is of a run with other data, weights or settings; delete {folder} or name another"
            )
        return path
    return None


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoint folders in `folder`, whole or not, newest first."""
    named = [(int(match[1]), path) for path in folder.glob("checkpoint-*") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(named, reverse=True)]


def _seal(path: Path) -> dict | None:
    try:
        return json.loads((path / SEAL).read_text())
    except (FileNotFoundError, ValueError):  # the writer was killed, or the file was cut
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
