"""Ends the runs whose processes are gone.

Dagster's default launcher does not watch its runs: one that was killed with signal 9 stays STARTED, keeps its place in
a pool and in the queue of runs, and the next run waits for it for ever (dagster issues 4319 and 28456). The event log
names the process of every run and step, and the kernel knows whether that process lives.
"""

from collections.abc import Iterator
from itertools import starmap

import dagster as dg
import psutil

STARTS = {
    dg.DagsterEventType.RUN_START,
    dg.DagsterEventType.STEP_WORKER_STARTED,
    dg.DagsterEventType.STEP_START,
}  # logged by the process itself
CLOCK = 10.0  # seconds by which the system's clock may have been set between a start and now


def end_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Report the runs that are in progress on this machine without a living process as failed; their ids.

    A run that lost its own process but not that of a step is left alone until the step has ended too.
    """
    unfinished = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING])
    dead = [run for run in instance.get_runs(unfinished) if not any(starmap(_lives, _starts(instance, run.run_id)))]
    for run in dead:
        instance.report_run_failed(run, "Its process is gone: it was killed, or the machine went down.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in dead]


def _starts(instance: dg.DagsterInstance, run_id: str) -> Iterator[tuple[int, float]]:
    """Process id and time of every start that the run has logged."""
    for entry in instance.all_logs(run_id, of_type=STARTS):
        if entry.dagster_event and entry.dagster_event.pid:
            yield entry.dagster_event.pid, entry.timestamp


def _lives(pid: int, logged: float) -> bool:
    """Whether the process that logged something at that time still runs; its number may have passed to another."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() < logged + CLOCK
    except psutil.NoSuchProcess:
        return False
