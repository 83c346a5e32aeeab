"""The stages, derived from the assets: the one definition that both Dagster and DVC are given."""

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import dagster as dg
import dataframely as dy
from dagster._core.definitions.decorators.op_decorator import DecoratedOpFunction
from pydantic import BaseModel

import assets
from pipelines import data_docs
from pipelines.layout import KINDS, path_of, verdict_path
from pipelines.params import load_sections
from pipelines.sources import Sources, digest


@dataclass(frozen=True)
class Output:
    """One asset of a stage and the file it becomes, relative to the project root."""

    asset: str
    kind: str
    path: Path
    schema: type[dy.Schema] | None
    may_be_empty: bool
    truth: bool
    """Whether it holds what training must not see: no stage that makes a model or needs a GPU may read it."""


@dataclass(frozen=True)
class Stage:
    """What one Dagster step and one DVC stage have in common."""

    name: str
    group: str
    description: str
    outputs: tuple[Output, ...]
    upstream: tuple[Output, ...]
    external: dict[str, str]
    params: tuple[str, ...]
    sources: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """Everything the stage writes: its outputs and the verdict beside each table."""
        verdicts = (verdict_path(output.path) for output in self.outputs if output.kind == "table")
        return (*(output.path for output in self.outputs), *verdicts)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files of other stages that the stage reads; a site reads the verdicts on its tables."""
        tables = [up.path for up in self.upstream]
        reads_verdicts = any(output.kind == "site" for output in self.outputs)
        return (*tables, *(map(verdict_path, tables) if reads_verdicts else ()))


class Graph:
    """Assets, stages and params of one project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        loaded = list(_load(_modules()))
        self.external = [spec for item, _ in loaded for spec in _external_specs(item)]
        definitions = [(item, module) for item, module in loaded if isinstance(item, dg.AssetsDefinition)]
        definitions = [(item, module) for item, module in definitions if item.is_executable]
        self.params: dict[str, BaseModel] = load_sections(root / "params.yaml", dict(_param_classes(definitions)))
        outputs = {out.asset: out for item, _ in definitions for out in _outputs(item)}
        tables = {asset: out for asset, out in outputs.items() if out.kind == "table"}
        docs = data_docs.define(root, {asset: out.path for asset, out in tables.items()})
        outputs |= {out.asset: out for out in _outputs(docs)}
        external = {spec.key.to_user_string(): spec.metadata["path"] for spec in self.external}
        everything = [*definitions, (docs, data_docs)]
        sources = Sources(root)
        stages = [_stage(item, tuple(sources.of(module.__name__)), outputs, external) for item, module in everything]
        self.stages: dict[str, Stage] = {stage.name: stage for stage in stages}
        self.outputs: dict[str, Output] = outputs
        self.assets = [self._describe(item) for item, _ in everything]

    @cached_property
    def stage_of(self) -> dict[str, Stage]:
        """The stage that makes each asset."""
        return {output.asset: stage for stage in self.stages.values() for output in stage.outputs}

    def select(self, name: str) -> Stage:
        """The stage called `name`, or the one that makes the asset `name`.

        Raises
        ------
        KeyError
            There is no such stage or asset.
        """
        stage = self.stages.get(name) or self.stage_of.get(name)
        if stage is None:
            raise KeyError(f"no stage or asset {name!r}; stages: {', '.join(sorted(self.stages))}")
        return stage

    def external_path(self, asset: str) -> Path:
        """The file or folder of the user that an external asset stands for."""
        spec = next(spec for spec in self.external if spec.key.to_user_string() == asset)
        section, key = spec.metadata["path"].strip("${}").split(".")
        return self.root / getattr(self.params[section], key)

    def code_version(self, stage: Stage) -> str:
        """Hash of what DVC compares besides the data: source files and params."""
        params = {name: self.params[name].model_dump(mode="json") for name in stage.params}
        text = digest(self.root, list(stage.sources)) + json.dumps(params, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _describe(self, item: dg.AssetsDefinition) -> dg.AssetsDefinition:
        stage = self.stages[item.op.name]
        version = self.code_version(stage)

        def enrich(spec: dg.AssetSpec) -> dg.AssetSpec:
            output = self.outputs[spec.key.to_user_string()]
            return spec.replace_attributes(
                code_version=version,
                owners=list(spec.owners) or [f"team:{stage.group}"],
                kinds={*spec.kinds, _FORMATS[output.kind]},
                description=spec.description or stage.description,
                metadata={**spec.metadata, "path": str(output.path), **_column_schema(output.schema)},
            )

        return item.map_asset_specs(enrich)


_FORMATS = {
    "table": "parquet",
    "dataset": "huggingface",
    "model": "safetensors",
    "metrics": "json",
    "plot": "svg",
    "page": "html",
    "site": "greatexpectations",
}


def _modules() -> list[ModuleType]:
    return [importlib.import_module(f"assets.{module.name}") for module in pkgutil.iter_modules(assets.__path__)]


def _load(modules: Iterable[ModuleType]) -> Iterator[tuple[Any, ModuleType]]:
    for module in modules:
        group = module.__name__.rpartition(".")[2]
        for item in dg.load_assets_from_modules([module], group_name=group, include_specs=True):
            yield item, module


def _external_specs(item: Any) -> list[dg.AssetSpec]:
    if isinstance(item, dg.AssetSpec):
        return [item]
    return [] if item.is_executable else list(item.specs)


def _param_classes(definitions: Iterable[tuple[dg.AssetsDefinition, ModuleType]]) -> Iterator[tuple[str, type]]:
    for item, _ in definitions:
        compute = item.op.compute_fn
        assert isinstance(compute, DecoratedOpFunction)  # assets/ holds decorated functions only
        hints = get_type_hints(compute.decorated_fn)
        yield from ((key, hints[key]) for key in sorted(item.required_resource_keys - KINDS.keys()))


def _outputs(item: dg.AssetsDefinition) -> Iterator[Output]:
    for name, key in item.keys_by_output_name.items():
        spec = item.specs_by_key[key]
        kind = item.op.output_dict[name].io_manager_key
        if kind not in KINDS:
            raise ValueError(f"asset {key.to_user_string()}: io_manager_key {kind!r} is none of {', '.join(KINDS)}")
        path = path_of(kind, spec.group_name or "", key.to_user_string())
        schema = _schema(spec) if kind == "table" else None
        marks = {name: bool(spec.metadata.get(name)) for name in ("may_be_empty", "truth")}
        yield Output(key.to_user_string(), kind, path, schema, **marks)


def _schema(spec: dg.AssetSpec) -> type[dy.Schema]:
    artifact = spec.metadata.get("schema")
    if not isinstance(artifact, dg.PythonArtifactMetadataValue):
        name = spec.key.to_user_string()
        raise TypeError(f"table {name} declares no schema: metadata={{'schema': MetadataValue.python_artifact(...)}}")
    return getattr(importlib.import_module(artifact.module), artifact.name)


def _stage(
    item: dg.AssetsDefinition,
    sources: tuple[Path, ...],
    outputs: dict[str, Output],
    external: dict[str, str],
) -> Stage:
    made = tuple(outputs[key.to_user_string()] for key in item.keys_by_output_name.values())
    needed = sorted(key.to_user_string() for key in item.dependency_keys)
    seen = [asset for asset in needed if asset in outputs and outputs[asset].truth]
    if seen and (item.op.pool == "gpu" or any(output.kind == "model" for output in made)):
        raise ValueError(f"stage {item.op.name} trains and reads {', '.join(seen)}, which is marked as truth")
    return Stage(
        name=item.op.name,
        group=next(iter(item.specs)).group_name or "",
        description=(item.op.description or "").strip().partition("\n")[0],
        outputs=made,
        upstream=tuple(outputs[asset] for asset in needed if asset in outputs),
        external={asset: external[asset] for asset in needed if asset in external},
        params=tuple(sorted(item.required_resource_keys - KINDS.keys())),
        sources=sources,
    )


def _column_schema(schema: type[dy.Schema] | None) -> dict[str, Any]:
    if schema is None:
        return {}
    columns = [
        dg.TableColumn(name, str(column.dtype).partition("(")[0], column.description, _constraints(column))
        for name, column in schema.columns().items()
    ]
    return {"dagster/column_schema": dg.TableSchema(columns)}


def _constraints(column: dy.Column) -> dg.TableColumnConstraints:
    bounds = [f"one of {', '.join(column.categories)}"] if isinstance(column, dy.Enum) else []
    bounds += [
        f"{name} {value}" for name in ("min", "max", "regex") if (value := getattr(column, name, None)) is not None
    ]
    return dg.TableColumnConstraints(nullable=column.nullable, unique=column.unique or column.primary_key, other=bounds)
