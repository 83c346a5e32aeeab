"""A toy project in a temporary repository: the real pipelines over two stages that run in no time."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parents[2]
TOY = Path(__file__).parent / "toy"


@dataclass(frozen=True)
class Project:
    """A project folder and the ways to run it."""

    root: Path

    @property
    def environment(self) -> Mapping[str, str]:
        inherited = {key: value for key, value in os.environ.items() if key != "DVC_STAGE"}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{inherited['PATH']}"
        quiet = {"DVC_NO_ANALYTICS": "1", "DAGSTER_DISABLE_TELEMETRY": "yes", "GX_ANALYTICS_ENABLED": "false"}
        place = {"PYTHONPATH": str(self.root), "DAGSTER_HOME": str(self.root / ".dagster"), "PATH": programs}
        return {**inherited, **quiet, **place}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False)

    def pipelines(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "pipelines", *arguments)

    def dvc(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("dvc", *arguments)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, cwd=self.root, env=self.environment, start_new_session=True, **quiet)

    def numbers(self, *values: int) -> None:
        (self.root / "in.txt").write_text("".join(f"{value}\n" for value in values))

    def params(self, **values: object) -> None:
        path = self.root / "params.yaml"
        yaml = YAML()
        merged = (yaml.load(path) if path.exists() else {"numbers": {}})["numbers"] | values
        yaml.dump({"numbers": dict(merged)}, path)

    def outputs(self) -> dict[str, bytes]:
        """Every file that the stages wrote, half-written ones included, by its path."""
        folders = [self.root / name for name in ("data", "metrics", "reports")]
        files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files if path.name != ".gitignore"}


@pytest.fixture
def toy(template: Path, tmp_path: Path) -> Project:
    """The toy project, never run."""
    return Project(shutil.copytree(template, tmp_path / "toy"))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every toy project starts as."""
    root = tmp_path_factory.mktemp("template") / "toy"
    shutil.copytree(REPOSITORY / "pipelines", root / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    for package, modules in {"assets": [REPOSITORY / "assets/__init__.py", TOY / "numbers.py"], "preflow": []}.items():
        (root / package).mkdir()
        for module in modules or [REPOSITORY / "preflow/__init__.py", REPOSITORY / "preflow/params.py"]:
            shutil.copy(module, root / package)
    (root / ".dagster").mkdir()
    shutil.copy(REPOSITORY / ".dagster/dagster.yaml", root / ".dagster")
    (root / ".gitignore").write_text("__pycache__/\n.cache/\n.dagster/*\n/data/\n/reports/\n")
    project = Project(root)
    project.numbers(1, 2, 3, 4, 5)
    project.params(path="in.txt", factor=2, seconds=0.0)
    for command in (["git", "init", "-q"], ["dvc", "init", "-q"], [sys.executable, "-m", "pipelines", "dvc"]):
        done = project.run(*command)
        assert done.returncode == 0, done.stderr
    return root
