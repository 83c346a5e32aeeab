"""Everything that Dagster is given: assets, checks, jobs, schedules, sensors and resources."""

import multiprocessing
import os
from typing import Any

import dagster as dg

from pipelines import ROOT, repository
from pipelines.checks import define_checks
from pipelines.graph import Graph
from pipelines.io_manager import ProjectIOManager
from pipelines.layout import KINDS
from pipelines.process import die_with_parent
from pipelines.reaper import end_dead_runs
from pipelines.sync import report_lock


def build(graph: Graph) -> dg.Definitions:
    """The definitions of one project."""
    refinery = dg.define_asset_job(
        "refinery", dg.AssetSelection.all(), description="Every stage, from raw feedback on."
    )
    nightly = dg.ScheduleDefinition(
        name="nightly",
        job=refinery,
        cron_schedule="0 3 * * *",
        execution_timezone="UTC",
        description="Refines whatever has arrived, once a night; off until it is switched on.",
    )
    return dg.Definitions(
        assets=[*graph.external, *graph.assets],
        asset_checks=define_checks(graph),
        jobs=[refinery],
        schedules=[nightly],
        sensors=[_lock_sensor(graph), dead_runs],
        resources=step_resources(graph),
        executor=dg.multiprocess_executor.configured({"max_concurrent": 2}),
    )


def resources(graph: Graph) -> dict[str, Any]:
    """The I/O manager under the name of every kind, and each section of params.yaml under its own."""
    manager = ProjectIOManager(graph)
    return {**dict.fromkeys(KINDS, manager), **graph.params}


def step_resources(graph: Graph) -> dict[str, Any]:
    """The same for the processes of a multiprocess run, each of which dies with the process that started it."""
    given = resources(graph)

    @dg.io_manager
    def tied(_: dg.InitResourceContext) -> dg.IOManager:
        if multiprocessing.parent_process() is not None:
            die_with_parent()
        return given["table"]

    return {**given, **dict.fromkeys(KINDS, tied)}


def _lock_sensor(graph: Graph) -> dg.SensorDefinition:
    @dg.sensor(
        name="dvc_lock",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Shows what `dvc repro`, `dvc checkout` or `git pull` brought as materializations.",
    )
    def dvc_lock(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        state = repository.lock_state(graph.root)
        if state == context.cursor:
            return dg.SkipReason("dvc.lock and params.yaml are as they were")
        try:
            reported = report_lock(context.instance, Graph(graph.root))
        except repository.LockError:
            return dg.SkipReason("DVC is at work; its stages report themselves")
        context.update_cursor(state)
        return dg.SkipReason(f"reported {', '.join(reported)}" if reported else "nothing new in dvc.lock")

    return dvc_lock


@dg.sensor(
    minimum_interval_seconds=15,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Ends runs that were killed, so that the next one does not wait for them.",
)
def dead_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """A sensor that starts nothing: it only looks after what was started."""
    ended = end_dead_runs(context.instance)
    return dg.SkipReason(f"ended {', '.join(ended)}" if ended else "every run in progress has its process")


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions of this project, built when Dagster asks for them."""
    os.chdir(ROOT)  # relative paths in params.yaml start here
    return build(Graph(ROOT))
