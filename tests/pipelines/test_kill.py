"""A dead stage leaves no half file and no orphan; a rerun at once gives the bytes of an undisturbed run."""

import os
import random
import signal
import subprocess
import time

import psutil
import pytest

from tests.pipelines.conftest import Project

DVC = ("dvc", "repro")
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


def run_killed_and_rerun(toy: Project, command: tuple[str, ...], victim: str, seed: int) -> None:
    toy.params(seconds=0.2)
    assert toy.dvc("repro").returncode == 0
    undisturbed = toy.outputs()
    for folder in ("data", "metrics", "reports"):
        toy.run("rm", "-rf", folder)
    toy.run("rm", "-f", "dvc.lock")

    children = kill(victim, toy.start(*command), random.Random(seed).uniform(0.0, 12.0))
    rerun = toy.dvc("repro")
    assert rerun.returncode == 0, rerun.stderr
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert toy.outputs() == undisturbed
    assert "up to date" in toy.dvc("status").stdout


@pytest.mark.parametrize(("command", "victim"), [(DVC, "stage"), (DVC, "parent"), (DAGSTER, "parent")])
def test_kill_at_a_random_moment(toy: Project, command: tuple[str, ...], victim: str) -> None:
    run_killed_and_rerun(toy, command, victim, seed=len(victim))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("command", "victim"), [(DVC, "stage"), (DVC, "parent"), (DAGSTER, "parent")])
def test_kill_at_ten_random_moments(toy: Project, command: tuple[str, ...], victim: str, seed: int) -> None:
    run_killed_and_rerun(toy, command, victim, seed=seed)
