"""The blocking check of every table, as Dagster shows it: the verdict that the gate left beside the table."""

import json
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from pipelines.expectations import failures
from pipelines.graph import Graph, Output, Stage
from pipelines.io_manager import CHECK
from pipelines.layout import refused_path, verdict_path


def define_checks(graph: Graph) -> list[dg.AssetChecksDefinition]:
    """One check definition per stage that makes tables, with one blocking check per table."""
    return [
        _stage_check(graph.root, stage, tables)
        for stage in graph.stages.values()
        if (tables := [output for output in stage.outputs if output.kind == "table"])
    ]


def _stage_check(root: Path, stage: Stage, tables: list[Output]) -> dg.AssetChecksDefinition:
    description = "Great Expectations, from the declared schema; a table that fails never gets its final name."
    specs = [dg.AssetCheckSpec(CHECK, asset=table.asset, description=description, blocking=True) for table in tables]

    @dg.multi_asset_check(name=f"{stage.name}_{CHECK}", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {key.asset_key.to_user_string() for key in context.selected_asset_check_keys}
        for table in tables:
            if table.asset in wanted:
                yield _result(root, table)

    return check


def _result(root: Path, table: Output) -> dg.AssetCheckResult:
    refused = root / refused_path(table.path) / "verdict.json"
    verdict = json.loads((refused if refused.exists() else root / verdict_path(table.path)).read_text(encoding="utf-8"))
    return dg.AssetCheckResult(
        check_name=CHECK,
        asset_key=table.asset,
        passed=verdict["success"],
        metadata={
            "evaluated": verdict["statistics"]["evaluated_expectations"],
            "successful": verdict["statistics"]["successful_expectations"],
            "failures": dg.MetadataValue.json(failures(verdict)),
        },
    )
