"""The one way in which assets are written and read, under Dagster and under DVC alike.

All outputs of a stage are written aside first. A table passes its gate there. Only when the last output of the stage
has been written and every table has passed do they all move to their final names, and DVC's lock is told.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import dagster as dg
import polars as pl
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation
from dagster._core.events import DagsterEvent

from pipelines import repository
from pipelines.expectations import failures, validate
from pipelines.files import aside, flush, promote, remove
from pipelines.graph import Graph, Output, Stage
from pipelines.layout import refused_path, verdict_path
from pipelines.process import Locks

CHECK = "expectations"


class ProjectIOManager(dg.IOManager):
    """Reads and writes every kind of asset at the path that its kind, group and name decide."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.locks = Locks(graph.root / ".cache" / "locks")
        self._pending: dict[str, dict[Path, Path]] = {}

    def load_input(self, context: dg.InputContext) -> Any:
        """A lazy frame for a table, the parsed JSON of metrics, the path of anything else."""
        asset = context.asset_key.to_user_string()
        self.locks.share(asset)
        return read(self.graph.root, self.graph.outputs[asset])

    def handle_output(self, context: dg.OutputContext, obj: Any) -> Iterator[DagsterEvent]:  # type: ignore[override]
        """Write aside, pass the gate, and with the last output of the stage move everything into place."""
        asset = context.asset_key.to_user_string()
        stage, output = self.graph.stage_of[asset], self.graph.outputs[asset]
        for made in stage.outputs:
            self.locks.own(made.asset)
        target = self.graph.root / output.path
        written = aside(target)
        pending = self._pending.setdefault(stage.name, {})
        write(output.kind, obj, written)
        if output.kind == "table":
            verdict = self._verdict(output, written)
            if not verdict["success"]:
                self._pending.pop(stage.name)
                yield _check_event(context, verdict)
                raise self._refuse(output, written, verdict)
            pending[self._write_verdict(verdict, target)] = verdict_path(target)
        flush(written)
        pending[written] = target
        context.add_output_metadata(describe(output, written))
        context.step_context.set_data_version(context.asset_key, dg.DataVersion(repository.content_hash(written)))
        if len(pending) == len(stage.files):
            self._finish(stage)

    def _verdict(self, output: Output, written: Path) -> dict[str, Any]:
        assert output.schema is not None
        frame = pl.scan_parquet(written)
        return validate(frame, output.schema, name=output.asset, may_be_empty=output.may_be_empty)

    def _write_verdict(self, verdict: dict[str, Any], target: Path) -> Path:
        path = aside(verdict_path(target))
        path.write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
        flush(path)
        return path

    def _refuse(self, output: Output, written: Path, verdict: dict[str, Any]) -> dg.Failure:
        """Keep the failing data and its verdict aside for inspection; the final name keeps the last good version."""
        folder = refused_path(self.graph.root / output.path)
        remove(folder)
        folder.mkdir()
        written.rename(folder / output.path.name)
        (folder / "verdict.json").write_text(json.dumps(verdict, indent=1) + "\n", encoding="utf-8")
        found = failures(verdict)
        first = found[0]
        return dg.Failure(
            f"{output.asset} failed its gate: {first['expectation']} on {first['column']}"
            f" ({first['rows'] or 'the whole table'} rows, for example {first['offending']}); "
            f"{len(found)} expectations failed. The data is kept in {folder.relative_to(self.graph.root)}",
            metadata={"failures": dg.MetadataValue.json(found)},
            allow_retries=False,
        )

    def _finish(self, stage: Stage) -> None:
        for written, target in self._pending.pop(stage.name).items():
            promote(written, target)
        for output in stage.outputs:
            remove(refused_path(self.graph.root / output.path))
        if not os.environ.get("DVC_STAGE"):  # DVC commits the stages that it runs itself
            repository.commit(self.graph.root, stage.name)


def read(root: Path, output: Output) -> Any:
    """The value of an asset as its consumers get it.

    Raises
    ------
    dg.Failure
        The asset has never been made, or its newest version failed the gate.
    """
    path = root / output.path
    if refused_path(path).exists():
        raise dg.Failure(
            f"{output.asset} failed its gate when it was last made; see {refused_path(output.path)}. "
            f"Nothing reads it until `dvc repro` has made a version that passes.",
            allow_retries=False,
        )
    if not path.exists():
        raise dg.Failure(f"{output.path} is missing; make it with `dvc repro` or materialize {output.asset}")
    if output.kind == "table":
        return pl.scan_parquet(path)
    return json.loads(path.read_text(encoding="utf-8")) if output.kind == "metrics" else path


def write(kind: str, value: Any, path: Path) -> None:
    """Write a value as its kind demands; a plot is a Vega-Lite specification, models and datasets write themselves.

    Raises
    ------
    TypeError
        The value is not of the type that its kind needs.
    """
    if kind == "table":
        if not isinstance(value, pl.LazyFrame | pl.DataFrame):
            raise TypeError(f"a table is a polars frame, not {type(value).__name__}")
        value.lazy().sink_parquet(path, compression="zstd", maintain_order=True)
    elif kind == "metrics":
        path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    elif kind == "plot":
        from preflow.charts import to_svg  # altair: only for a process that draws

        path.write_text(to_svg(value), encoding="utf-8")
    elif kind == "page":
        path.write_text(value, encoding="utf-8")
    elif kind == "model":
        value.save_pretrained(path)
    else:
        path.mkdir()
        value.save_to_disk(path)


def describe(output: Output, path: Path) -> dict[str, Any]:
    """Metadata of a materialization: the size, and what a reader wants to see first."""
    files = [file for file in [path, *path.rglob("*")] if file.is_file()]
    metadata: dict[str, Any] = {"bytes": sum(file.stat().st_size for file in files)}
    if output.kind == "table":
        rows = cast("int", pl.scan_parquet(path).select(pl.len()).collect().item())
        metadata["dagster/row_count"] = rows
    if output.kind == "metrics":
        values = json.loads(path.read_text(encoding="utf-8"))
        metadata |= {key: value for key, value in values.items() if isinstance(value, int | float | str)}
    return metadata


def _check_event(context: dg.OutputContext, verdict: dict[str, Any]) -> DagsterEvent:
    evaluation = AssetCheckEvaluation(
        asset_key=context.asset_key,
        check_name=CHECK,
        passed=False,
        metadata={"failures": dg.MetadataValue.json(failures(verdict))},
        blocking=True,
    )
    return DagsterEvent.asset_check_evaluation(context.step_context, evaluation)
