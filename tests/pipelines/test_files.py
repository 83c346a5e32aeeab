"""Outputs appear whole or not at all."""

import errno
import multiprocessing
import time
from pathlib import Path

import pytest

from pipelines.files import aside, flush, promote
from pipelines.process import Locks


def test_a_file_and_a_folder_replace_what_stood_there(tmp_path: Path) -> None:
    for target, make in [(tmp_path / "f", Path.touch), (tmp_path / "d", Path.mkdir)]:
        for content in ("old", "new"):
            written = aside(target)
            make(written)
            (written / "x" if written.is_dir() else written).write_text(content)
            flush(written)
            promote(written, target)
        assert (target / "x" if target.is_dir() else target).read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "f"]


def test_what_a_killed_run_left_aside_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "t"
    aside(target).mkdir()
    (aside(target)).write_text("half")
    assert not aside(target).exists()


def test_a_failed_exchange_names_both_paths(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(OSError, match="cannot exchange") as raised:
        promote(tmp_path / "missing", tmp_path / "d")
    assert raised.value.errno == errno.ENOENT


def hold(folder: Path, seconds: float) -> None:
    locks = Locks(folder / "locks")  # a lock lives as long as this object
    locks.own("asset")
    (folder / "held").touch()
    time.sleep(seconds)


def test_others_wait_for_a_writer_and_its_death_frees_the_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=hold, args=(tmp_path, 600.0), daemon=True)
    writer.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "held").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    other = context.Process(target=hold, args=(tmp_path, 0.0), daemon=True)
    other.start()
    other.join(1.0)
    assert other.is_alive(), "it waits for the writer"
    writer.kill()
    other.join(60)
    assert other.exitcode == 0


def test_readers_share(tmp_path: Path) -> None:
    one, other = Locks(tmp_path), Locks(tmp_path)
    one.share("asset")
    other.share("asset")
    one.release()
    other.own("asset")
    other.release()
