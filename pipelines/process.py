"""No orphans and no mixtures: a stage dies with its parent and has its outputs to itself."""

import ctypes
import fcntl
import multiprocessing
import os
import signal
from pathlib import Path
from typing import IO

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, however the parent dies.

    Without this, `kill -9` of DVC leaves the command of its stage running, and a rerun mixes the output of both.
    """
    parent, started_by = os.getppid(), multiprocessing.parent_process()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent or (started_by is not None and not started_by.is_alive()):  # it died before the call
        os.kill(os.getpid(), signal.SIGKILL)


class Locks:
    """Advisory locks of this process on assets: many readers or one writer, freed by the kernel when it ends.

    A step locks its inputs before its output, and inputs lie upstream: all processes take locks in the order of the
    graph, so they cannot wait for each other in a circle.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, IO[bytes]] = {}

    def share(self, asset: str) -> None:
        """Keep writers of `asset` out; wait for one that is at work."""
        if asset not in self._held:
            self._take(asset, fcntl.LOCK_SH)

    def own(self, asset: str) -> None:
        """Keep every other process away from `asset`; wait for those at work."""
        self._take(asset, fcntl.LOCK_EX)

    def release(self) -> None:
        """Free all locks of this process."""
        while self._held:
            self._held.popitem()[1].close()

    def _take(self, asset: str, mode: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if asset not in self._held:
            self._held[asset] = (self.folder / asset).open("ab")
        fcntl.flock(self._held[asset], mode)
