"""The arrows: preflow <- assets <- pipelines; asset modules share sections of params only; nothing unpickles."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {
    "preflow": {"assets", "pipelines", "dagster", "dvc", "great_expectations"},
    "assets": {"pipelines", "dvc", "great_expectations"},
    "pipelines": set(),
}
UNPICKLING = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_layers(layer: str) -> None:
    modules = sorted((ROOT / layer).rglob("*.py"))
    assert modules
    broken = {str(path): found for path in modules if (found := imported(path) & FORBIDDEN[layer])}
    assert not broken


def test_asset_modules_take_only_params_from_each_other() -> None:
    nodes = [node for path in (ROOT / "assets").glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    assert nodes
    taken = {
        alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "assets"
        for alias in node.names
    }
    assert all(name.endswith("Params") for name in taken)


def test_nothing_unpickles() -> None:
    modules = [path for layer in FORBIDDEN for path in (ROOT / layer).rglob("*.py")]
    assert modules
    assert not {str(path): found for path in modules if (found := imported(path) & UNPICKLING)}
    texts = [path.read_text() for path in modules]
    assert not any("allow_pickle=True" in text or "weights_only=False" in text for text in texts)
    assert not any("trust_remote_code=True" in text for text in texts)
