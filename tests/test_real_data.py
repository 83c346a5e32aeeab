"""Real feedback through the whole graph with nothing changed but `feedback.path` in params.yaml."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import dagster as dg
import polars as pl
import pytest

from pipelines.definitions import resources
from pipelines.graph import Graph
from tests.pipelines.conftest import Project

ROOT = Path(__file__).parents[1]
# Great Expectations 1.24 imports modules that Python 3.11 has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:great_expectations.*")
UNTIL_PAIRS = ("feedback", "audit", "pairs")
INPUTS = {  # what must be in each: counts of metrics/feedback/intake.json
    "ukpconvarg1": {"rows_in": 8_158, "votes_in": 40_699},
    "pandalm": {"rows_in": 999},
    "gsm8k_solutions": {"records_in": 1_319},
    "llmbar": {"rows_in": 419 + 466 + 315},  # LLMBar, Processed and the case studies
    "prometheus": {"comparisons": 188 + 120},  # scored answers with enough margin, and HHH
    "vicuna_blog": {"rows_in": 1_040},
}
RIGHT_WRONG_PAIRS = 2_429  # of GSM8K's model solutions, equal ones included


def project(source: Path, root: Path, *, with_code: bool) -> Path:
    """A project folder on this feedback: params.yaml with one line changed, and the code beside it."""
    root.mkdir()
    shutil.copytree(ROOT / "inputs", root / "inputs")
    params = (ROOT / "params.yaml").read_text(encoding="utf-8")
    changed, lines = re.subn(r"(?m)^(feedback:\n(?:  .*\n)*?)  path: .*$", rf"\1  path: {source}", params)
    assert lines == 1
    (root / "params.yaml").write_text(changed, encoding="utf-8")
    for package in ("preflow", "assets", "pipelines"):
        if with_code:
            shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (root / package).symlink_to(ROOT / package)
    return root


def metrics(root: Path, name: str) -> dict:
    return json.loads((root / "metrics" / f"{name}.json").read_text(encoding="utf-8"))


def check_equations(root: Path, name: str) -> None:
    """Nothing is lost on the way, and the counts are those that the source is known for."""
    counts, outcomes = metrics(root, "feedback/intake"), metrics(root, "pairs/outcomes")
    data = root / "data"
    height = {
        path.stem: pl.scan_parquet(path).select(pl.len()).collect().item() for path in sorted(data.rglob("*.parquet"))
    }
    assert counts["rows_in"] == height["comparisons"] + counts["rows_quarantined"] + counts["rows_merged"]
    assert height["quarantine"] == counts["rows_quarantined"] + counts["votes_quarantined"]
    lost = counts["votes_quarantined"] + counts["votes_merged"] + counts["votes_of_quarantined_rows"]
    assert counts["votes_in"] == height["votes"] + lost
    assert height["comparisons"] == height["duplicate_clusters"] == height["splits"] == sum(outcomes.values())
    assert height["preference_pairs"] == outcomes["pair"] > 0
    assert not any(metrics(root, "audit/leakage")[key] for key in ("prompt_groups", "exact_clusters", "near_clusters"))
    assert {key: counts[key] for key in INPUTS[name]} == INPUTS[name]
    if name == "gsm8k_solutions":
        assert counts["rows_kept"] + counts["rows_merged"] == RIGHT_WRONG_PAIRS


@pytest.mark.parametrize("name", INPUTS)
def test_only_the_path_changes_until_the_pairs(name, shared_data, tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "test")  # the outputs are not recorded in a lock
    root = project(shared_data / name, tmp_path / name, with_code=False)
    monkeypatch.chdir(root)
    graph = Graph(root)
    wanted = [output.asset for stage in graph.stages.values() if stage.group in UNTIL_PAIRS for output in stage.outputs]
    given = resources(graph)
    done = dg.materialize(
        [*graph.external, *graph.assets],
        selection=dg.AssetSelection.assets(*wanted),
        resources=given,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    given["table"].locks.release()
    assert done.success
    check_equations(root, name)


@pytest.mark.full
@pytest.mark.parametrize("name", INPUTS)
def test_only_the_path_changes_to_the_report(name, shared_data, tmp_path):
    root = project(shared_data / name, tmp_path / name, with_code=True)
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    (root / ".dagster").mkdir()
    shutil.copy(ROOT / ".dagster/dagster.yaml", root / ".dagster")
    shutil.copy(ROOT / "dvc.yaml", root)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    made = Project(root)
    done = made.dvc("repro")
    assert done.returncode == 0, done.stderr[-3000:]
    check_equations(root, name)
    assert (root / "reports/report.html").stat().st_size > 10_000
    test = metrics(root, "reward/reward_evaluation")["test"]
    assert test["n_pairs"] > 0
    if name == "ukpconvarg1":
        assert test["model_minus_length"]["low"] > 0, "the reward model beats length on held-out debates"
    again = made.dvc("repro")
    assert "Running stage" not in again.stdout
