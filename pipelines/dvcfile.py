"""dvc.yaml, written from the stages. People read it, nobody edits it."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipelines.graph import Stage
from pipelines.layout import KINDS, verdict_path

HEADER = """\
# Written by `python -m pipelines dvc` from the assets in assets/; edit those, not this file.
# `persist` keeps the last good version of an output until a new one has passed its gate.
"""


def render(stages: Iterable[Stage]) -> str:
    """The text of dvc.yaml."""
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump({"stages": {stage.name: _stage(stage) for stage in sorted(stages, key=lambda s: s.name)}}, text)
    return HEADER + text.getvalue()


def _stage(stage: Stage) -> dict[str, Any]:
    deps = [*stage.external.values(), *map(str, stage.inputs), *map(str, stage.sources)]
    parts: dict[str, Any] = {
        "desc": stage.description,
        "cmd": f"python -m pipelines run {stage.name}",
        "deps": deps,
        "params": list(stage.params),
        "metrics": [_out(out.path, in_git=True) for out in stage.outputs if out.kind == "metrics"],
        "plots": [_out(out.path, in_git=True) for out in stage.outputs if out.kind == "plot"],
        "outs": [
            _out(path, in_git=False)
            for out in stage.outputs
            if not KINDS[out.kind].in_git
            for path in ([out.path, verdict_path(out.path)] if out.kind == "table" else [out.path])
        ],
    }
    return {key: value for key, value in parts.items() if value}


def _out(path: Path, *, in_git: bool) -> dict[str, Any]:
    return {str(path): {"persist": True} | ({"cache": False} if in_git else {})}
