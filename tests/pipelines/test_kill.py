"""A dead stage leaves no half file and no orphan; a rerun at once gives the bytes of an undisturbed run."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.pipelines.conftest import Project

DVC = ("dvc", "repro", "doubled")
DAGSTER = ("dagster", "job", "execute", "-m", "pipelines.definitions", "-j", "refinery")


def descendants(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill(victim: str, process: subprocess.Popen[bytes], wait: float) -> list[psutil.Process]:
    """Kill `victim` with signal 9, `wait` seconds after it started its first child; the processes below it then."""
    deadline = time.monotonic() + 120
    while not descendants(process) and process.poll() is None:
        assert time.monotonic() < deadline, "no stage was ever started"
        time.sleep(0.02)
    time.sleep(wait)
    children = descendants(process)
    target = children[-1].pid if victim == "stage" and children else process.pid
    if process.poll() is None:
        os.kill(target, signal.SIGKILL)
    process.wait(timeout=120)
    return children


@pytest.fixture(scope="module")
def undisturbed(template: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The outputs of a run that nobody killed."""
    calm = Project(shutil.copytree(template, tmp_path_factory.mktemp("calm") / "toy"))
    done = calm.run(*DVC)
    assert done.returncode == 0, done.stderr
    return calm.outputs()


def run_killed_and_rerun(
    toy: Project, undisturbed: dict[str, bytes], command: tuple[str, ...], victim: str, seed: int
) -> None:
    children = kill(victim, toy.start(*command), random.Random(seed).uniform(0.0, 12.0))
    rerun = toy.run(*DVC)
    if "Unable to read RWLock-file" in rerun.stderr:
        # DVC writes this file in place (dvc issue 7615): killed in the middle, it wants what README.md says.
        (toy.root / ".dvc/tmp/rwlock").unlink()
        rerun = toy.run(*DVC)
    assert rerun.returncode == 0, rerun.stderr
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    made = {path: content for path, content in toy.outputs().items() if "data_docs" not in path}
    assert made == undisturbed
    assert "up to date" in toy.dvc("status", "doubled", "read_numbers").stdout


@pytest.mark.parametrize(("command", "victim"), [(DVC, "stage"), (DVC, "parent"), (DAGSTER, "parent")])
def test_kill_at_a_random_moment(
    toy: Project, undisturbed: dict[str, bytes], command: tuple[str, ...], victim: str
) -> None:
    run_killed_and_rerun(toy, undisturbed, command, victim, seed=len(victim))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("command", "victim"), [(DVC, "stage"), (DVC, "parent"), (DAGSTER, "parent")])
def test_kill_at_ten_random_moments(
    toy: Project, undisturbed: dict[str, bytes], command: tuple[str, ...], victim: str, seed: int
) -> None:
    run_killed_and_rerun(toy, undisturbed, command, victim, seed=seed)
