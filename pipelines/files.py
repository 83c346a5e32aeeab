"""Outputs appear whole or not at all: written aside, flushed to the disk, then moved to their name in one step."""

import ctypes
import os
import shutil
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h


def aside(target: Path) -> Path:
    """A fresh path beside `target`, on the same file system; what a killed run left there is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.with_name(f".{target.name}.aside")
    remove(path)
    return path


def flush(path: Path) -> None:
    """Write a file, or every file below a folder, through to the disk."""
    for file in [path, *path.rglob("*")]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def promote(path: Path, target: Path) -> None:
    """Move `path` to its final name in one step, replacing what stands there; a folder is exchanged, then removed."""
    if target.is_dir() and not target.is_symlink():
        _exchange(path, target)
        remove(path)
    else:
        path.replace(target)
    flush_name(target.parent)


def flush_name(folder: Path) -> None:
    """Make a rename in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> None:
    """Swap two paths atomically (renameat2); rename alone cannot replace a folder that is not empty."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot exchange {one} and {other}: {os.strerror(number)}", str(other))
