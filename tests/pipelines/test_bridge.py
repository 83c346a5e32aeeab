"""Both tools run the same stages and agree on what is up to date, whichever of them ran last."""

import json

import polars as pl

from tests.pipelines.conftest import Project

STALENESS = """
import json, dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from pipelines import ROOT
from pipelines.definitions import build
from pipelines.graph import Graph
from pipelines.sync import report_lock
graph = Graph(ROOT)
assets = build(graph).resolve_asset_graph()
with dg.DagsterInstance.get() as instance:
    report_lock(instance, graph)
    resolver = CachingStaleStatusResolver(instance, assets, LoadingContextForTest(instance))
    print(json.dumps({key.to_user_string(): resolver.get_status(key).value for key in assets.get_all_asset_keys()}))
"""
REFINERY = ("dagster", "job", "execute", "-m", "pipelines.definitions", "-j", "refinery")


def staleness(project: Project) -> dict[str, str]:
    done = project.run("python", "-c", STALENESS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_each_tool_sees_what_the_other_ran(toy: Project) -> None:
    first = toy.dvc("repro")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("Running stage") == 3
    assert set(staleness(toy).values()) == {"FRESH"}
    assert toy.dvc("repro").stdout.count("Running stage") == 0

    toy.numbers(5, 6, 7)
    toy.params(factor=3)
    stale = {asset for asset, status in staleness(toy).items() if status == "STALE"}
    assert {"number_rows", "number_counts", "doubled"} <= stale

    by_dagster = toy.run(*REFINERY)
    assert by_dagster.returncode == 0, by_dagster.stderr[-3000:]
    assert pl.read_parquet(toy.root / "data/numbers/doubled.parquet")["value"].to_list() == [15, 18, 21]
    assert "up to date" in toy.dvc("status").stdout
    assert toy.dvc("repro").stdout.count("Running stage") == 0
    assert set(staleness(toy).values()) == {"FRESH"}


def test_dagster_learns_what_a_checkout_brought(toy: Project) -> None:
    assert toy.dvc("repro").returncode == 0
    (toy.root / ".dagster/history").mkdir(exist_ok=True)
    for storage in ("history", "storage", "schedules"):
        toy.run("rm", "-rf", f".dagster/{storage}")
    toy.run("rm", "-rf", "data", "reports")
    assert toy.dvc("checkout").returncode == 0
    assert set(staleness(toy).values()) == {"FRESH"}


def test_same_input_gives_the_same_bytes(toy: Project) -> None:
    assert toy.dvc("repro").returncode == 0
    first = toy.outputs()
    assert {"data/numbers/doubled.parquet", "metrics/numbers/number_counts.json"} <= first.keys()
    assert toy.dvc("repro", "--force").returncode == 0
    assert toy.outputs() == first


def test_a_stale_dvc_yaml_is_noticed(toy: Project) -> None:
    assert toy.pipelines("dvc", "--check").returncode == 0
    path = toy.root / "dvc.yaml"
    path.write_text(path.read_text().replace("in.txt", "x").replace("doubled.parquet", "tripled.parquet"))
    checked = toy.pipelines("dvc", "--check")
    assert checked.returncode == 1
    assert "python -m pipelines dvc" in checked.stderr


def test_experiments_override_params(toy: Project) -> None:
    """`dvc exp run -S` works in the environment that dagster needs: see test_environment.py."""
    toy.run("git", "add", "-A")
    toy.run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "toy")
    done = toy.dvc("exp", "run", "-S", "numbers.factor=7")
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(toy.root / "data/numbers/doubled.parquet")["value"].to_list() == [7, 14, 21, 28, 35]
