"""What the project asks of DVC as a library: hashes, commits of one stage, and a check of what stands on disk."""

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from dvc.lock import LockError
from dvc.repo import Repo
from dvc_data.hashfile.build import build
from dvc_data.hashfile.db import HashFileDB
from dvc_objects.fs.local import localfs

from pipelines.params import read_yaml

PATIENCE = 60.0  # seconds to wait for another process that holds DVC's lock


def content_hash(path: Path) -> str:
    """The hash that DVC records for a file (MD5) or a folder (MD5 of its listing, ending in `.dir`)."""
    unused = HashFileDB(localfs, "")  # a dry run stores nothing
    _, _, built = build(unused, str(path), localfs, "md5", dry_run=True)
    return str(built.hash_info.value)


def commit(root: Path, stage: str) -> None:
    """Record the outputs of one stage as they stand: into the cache and into dvc.lock."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with Repo(str(root)) as repo:
                repo.commit(f"{root / 'dvc.yaml'}:{stage}", force=True)
        except LockError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def changed_stages(root: Path) -> set[str]:
    """Names of the stages that `dvc repro` would run."""
    with Repo(str(root)) as repo:
        return {name.rpartition(":")[2] for name in repo.status()}


def lock_state(root: Path) -> str:
    """Changes whenever dvc.lock or params.yaml does."""
    files = [root / "dvc.lock", root / "params.yaml"]
    return " ".join(content_hash(file) if file.exists() else "none" for file in files)


def locked_outputs(root: Path) -> dict[str, dict[str, str]]:
    """Per stage, the recorded hash of every output path."""
    lock = root / "dvc.lock"
    stages = read_yaml(lock)["stages"] if lock.exists() else {}
    return {name: {out["path"]: out["md5"] for out in stage.get("outs", [])} for name, stage in stages.items()}


def corrupt(root: Path) -> Iterator[str]:
    """Every output and cache object whose content is not what its name or dvc.lock says, in words."""
    with Repo(str(root)) as repo:
        cache = Path(repo.cache.local.path)
    recorded = {path: value for outs in locked_outputs(root).values() for path, value in outs.items()}
    for path, value in sorted(recorded.items()):
        target = root / path
        if not target.exists():
            yield f"{path}: missing; `dvc checkout {path}` restores it from the cache"
        elif content_hash(target) != value:
            yield f"{path}: content is not what dvc.lock records; `dvc repro` makes it anew"
    for found in sorted(cache.glob("??/*")):
        name = found.parent.name + found.name
        actual = hashlib.md5(found.read_bytes(), usedforsecurity=False).hexdigest()
        if actual != name.removesuffix(".dir"):
            place = found.relative_to(root) if found.is_relative_to(root) else found
            yield f"{place}: corrupt; delete it, then `dvc repro`"
