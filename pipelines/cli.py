"""The command line: `python -m pipelines run STAGE | dvc [--check] | verify`."""

import os
from typing import Annotated

import dagster as dg
import typer
from rich.console import Console

from pipelines import ROOT, dvcfile, repository
from pipelines.checks import define_checks
from pipelines.definitions import resources
from pipelines.graph import Graph, Stage
from pipelines.params import ParamsError
from pipelines.process import die_with_parent
from pipelines.reaper import end_dead_runs
from pipelines.sync import observe_external

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@app.command()
def run(name: str) -> None:
    """Run one stage, named by itself or by an asset it makes, and record it in Dagster's history."""
    die_with_parent()
    graph = _graph()
    stage = _select(graph, name)
    with _instance() as instance:
        end_dead_runs(instance)  # or this one would wait for their place in a pool
        observe_external(instance, graph)
        result = dg.materialize(
            [*graph.external, *graph.assets, *define_checks(graph)],
            selection=dg.AssetSelection.assets(*(output.asset for output in stage.outputs)),
            resources=resources(graph),
            instance=instance,
            run_config=QUIET,
            raise_on_error=False,
            tags={"preflow/started_by": "dvc" if os.environ.get("DVC_STAGE") else "shell"},
        )
    if not result.success:
        for event in result.get_step_failure_events():
            _print_failure(event)
        raise typer.Exit(1)
    for output in stage.outputs:
        console.print(f"{output.asset} -> {output.path}")


@app.command()
def dvc(*, check: Annotated[bool, typer.Option(help="Write nothing; fail if dvc.yaml is stale.")] = False) -> None:
    """Write dvc.yaml from the assets."""
    text, path = dvcfile.render(_graph().stages.values()), ROOT / "dvc.yaml"
    if not check:
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        errors.print("dvc.yaml is stale: run `python -m pipelines dvc` and commit it")
        raise typer.Exit(1)


@app.command()
def verify() -> None:
    """Hash every output and cache object again and name what is not what dvc.lock says."""
    found = list(repository.corrupt(ROOT))
    for line in found:
        errors.print(line)
    if found:
        raise typer.Exit(1)
    console.print("every output and cache object is what dvc.lock records")


def _graph() -> Graph:
    os.chdir(ROOT)  # relative paths in params.yaml start here
    try:
        return Graph(ROOT)
    except ParamsError as error:
        errors.print(str(error))
        raise typer.Exit(2) from error


def _select(graph: Graph, name: str) -> Stage:
    try:
        return graph.select(name)
    except KeyError as error:
        errors.print(str(error.args[0]))
        raise typer.Exit(2) from error


def _instance() -> dg.DagsterInstance:
    os.environ.setdefault("DAGSTER_HOME", str(ROOT / ".dagster"))
    return dg.DagsterInstance.get()


def _print_failure(event: dg.DagsterEvent) -> None:
    """The cause in one paragraph; the whole trace where the cause is an unforeseen exception."""
    data = event.step_failure_data
    failure = data.user_failure_data
    if failure and failure.description:
        errors.print(f"{event.step_key}: {failure.description}")
    elif data.error:
        errors.print(f"{event.step_key}: {data.error.to_string()}")
