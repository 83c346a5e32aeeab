"""A content-addressed, append-only store of float32 arrays that survives kill -9.

An entry is an array of any length under a key of 32 hexadecimal digits that names all that the array depends on.
Entries are added a shard at a time: a safetensors file named after its own SHA-256, written aside, synced and renamed.
So a shard is whole or absent, a changed byte is seen on reading, and a rerun computes only what was not yet stored.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save
from tqdm import tqdm

BATCHES_PER_SHARD = 32  # what a kill can cost at most

_KEY = re.compile("[0-9a-f]{32}")


def content_key(*parts: str | int) -> str:
    """The key of a value that depends on exactly `parts`, in this order: 32 hexadecimal digits."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


class ShardError(ValueError):
    """A shard whose bytes are not those that were written."""


class ArrayStore:
    """The arrays of one folder, all held in memory. One process writes at a time.

    Raises
    ------
    ShardError
        A shard was altered after it was written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arrays: dict[str, np.ndarray] = {}
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob("*.partial"):  # of a writer that was killed
            leftover.unlink()
        for shard in sorted(folder.glob("*.safetensors")):
            self.arrays.update(_read(shard))

    def add(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Store 1-D float32 arrays, [n] each with its own n, durably before returning; one shard a call.

        Raises
        ------
        ValueError
            A key, shape or dtype is not as said above, or a value is NaN.
        """
        for key, array in arrays.items():
            _check(key, array)
        if not arrays:
            return
        data = save({key: np.ascontiguousarray(arrays[key]) for key in sorted(arrays)})
        _write(self.folder / f"{hashlib.sha256(data).hexdigest()}.safetensors", data)
        self.arrays.update(arrays)

    def fill(
        self,
        batches: Iterable[Sequence[str]],
        compute: Callable[[Sequence[str]], Iterable[np.ndarray]],
        *,
        what: str,
    ) -> int:
        """Compute and store what is missing of these batches of keys, a shard at a time; returns how many entries.

        Parameters
        ----------
        compute
            The arrays of some of the keys of one batch, in their order.
        what
            Names the work in the progress bar.
        """
        missing = [absent for batch in batches if (absent := [key for key in batch if key not in self.arrays])]
        total = sum(map(len, missing))
        with tqdm(total=total, desc=what, disable=None) as progress:
            for start in range(0, len(missing), BATCHES_PER_SHARD):
                shard: dict[str, np.ndarray] = {}
                for keys in missing[start : start + BATCHES_PER_SHARD]:
                    shard |= dict(zip(keys, compute(keys), strict=True))
                    progress.update(len(keys))
                self.add(shard)
        return total


def _check(key: str, array: np.ndarray) -> None:
    if not _KEY.fullmatch(key):
        raise ValueError(f"key {key!r} is not 32 hexadecimal digits; make it with content_key")
    if array.dtype != np.float32 or array.ndim != 1:
        raise ValueError(f"entry {key} is {array.dtype}{list(array.shape)}; the store takes 1-D float32 arrays")
    if np.isnan(array).any():
        raise ValueError(f"entry {key} holds NaN; the computation that gave it failed and must not be stored")


def _read(shard: Path) -> dict[str, np.ndarray]:
    data = shard.read_bytes()
    if hashlib.sha256(data).hexdigest() != shard.stem:
        raise ShardError(f"{shard} was altered after it was written; delete it: its entries are computed again")
    return load(data)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name itself must survive a power cut
    finally:
        os.close(folder)
