"""Tells Dagster what DVC knows: outputs that came from a cache, a checkout or a colleague, and the user's files."""

from collections.abc import Mapping

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluation
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

from pipelines import repository
from pipelines.graph import Graph, Stage
from pipelines.io_manager import CHECK, describe


def observe_external(instance: dg.DagsterInstance, graph: Graph) -> dict[str, str]:
    """Report the content hash of the user's files where Dagster does not know it yet; hash by asset."""
    versions = {}
    for spec in graph.external:
        asset = spec.key.to_user_string()
        path = graph.external_path(asset)
        versions[asset] = repository.content_hash(path) if path.exists() else "missing"
        if _recorded_tags(instance, spec.key).get(DATA_VERSION_TAG) != versions[asset]:
            tags = {DATA_VERSION_TAG: versions[asset], DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
            instance.report_runless_asset_event(dg.AssetMaterialization(spec.key, tags=tags))
    return versions


def report_lock(instance: dg.DagsterInstance, graph: Graph) -> list[str]:
    """Report every up-to-date output whose recorded version Dagster does not have; the names of those reported."""
    versions = observe_external(instance, graph)
    locked = repository.locked_outputs(graph.root)
    changed = repository.changed_stages(graph.root)
    fresh = [stage for stage in graph.stages.values() if stage.name in locked and stage.name not in changed]
    for stage in fresh:
        for output in stage.outputs:
            versions[output.asset] = locked[stage.name][str(output.path)]
    return [
        output.asset
        for stage in fresh
        for output in stage.outputs
        if _report(instance, graph, stage, output.asset, versions)
    ]


def _report(instance: dg.DagsterInstance, graph: Graph, stage: Stage, asset: str, versions: dict[str, str]) -> bool:
    key, output = dg.AssetKey(asset), graph.outputs[asset]
    tags = {
        CODE_VERSION_TAG: graph.code_version(stage),
        DATA_VERSION_TAG: versions[asset],
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    known = _recorded_tags(instance, key)
    if all(known.get(tag) == value for tag, value in tags.items()):
        return False
    for upstream in [*(out.asset for out in stage.upstream), *stage.external]:
        if upstream in versions:
            tags[get_input_data_version_tag(dg.AssetKey(upstream))] = versions[upstream]
            tags[get_input_event_pointer_tag(dg.AssetKey(upstream))] = NULL_EVENT_POINTER
    metadata = describe(output, graph.root / output.path)
    instance.report_runless_asset_event(dg.AssetMaterialization(key, metadata=metadata, tags=tags))
    if output.kind == "table":
        evaluation = AssetCheckEvaluation(asset_key=key, check_name=CHECK, passed=True, metadata={}, blocking=True)
        instance.report_runless_asset_event(evaluation)
    return True


def _recorded_tags(instance: dg.DagsterInstance, key: dg.AssetKey) -> Mapping[str, str]:
    """Tags of the newest materialization that Dagster knows."""
    event = instance.get_latest_materialization_event(key)
    return (event.asset_materialization.tags or {}) if event and event.asset_materialization else {}
