"""A table that fails its expectations never stands at its final path, and nobody reads it."""

import json

import polars as pl

from tests.pipelines.conftest import Project

CHECKS = """
import json, dagster as dg
with dg.DagsterInstance.get() as instance:
    key = dg.AssetCheckKey(dg.AssetKey("number_rows"), "expectations")
    record = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)[0]
    evaluation = record.event.dagster_event.asset_check_evaluation_data
    failures = evaluation.metadata.get("failures")
    print(json.dumps({"status": record.status.value, "failures": failures.data if failures else []}))
"""


def last_check(project: Project) -> dict:
    done = project.run("python", "-c", CHECKS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_bad_data_stops_at_the_gate_under_dvc(toy: Project) -> None:
    assert toy.dvc("repro").returncode == 0
    good = toy.outputs()
    toy.numbers(1, -7, 3)

    refused = toy.dvc("repro")
    assert refused.returncode != 0
    assert "number_rows failed its gate: expect_column_values_to_be_between on value" in refused.stderr
    kept_aside = {path for path in toy.outputs() if "number_rows.refused/" in path}
    assert kept_aside == {
        "data/numbers/number_rows.refused/number_rows.parquet",
        "data/numbers/number_rows.refused/verdict.json",
    }
    standing = {path: content for path, content in toy.outputs().items() if path not in kept_aside}
    assert standing == good, "the last good version of every output stands, and nothing half-written beside it"

    check = last_check(toy)
    assert check["status"] == "FAILED"
    assert check["failures"][0]["column"] == "value"
    assert check["failures"][0]["offending"] == [{"line": 2, "value": -7}]

    consumer = toy.pipelines("run", "doubled")
    assert consumer.returncode == 1
    assert "number_rows failed its gate" in consumer.stderr

    toy.numbers(1, 7, 3)
    assert toy.dvc("repro").returncode == 0
    assert not (toy.root / "data/numbers/number_rows.refused").exists()
    assert pl.read_parquet(toy.root / "data/numbers/doubled.parquet")["value"].to_list() == [2, 14, 6]
    assert last_check(toy)["status"] == "SUCCEEDED"


def test_bad_data_stops_at_the_gate_under_dagster(toy: Project) -> None:
    toy.numbers(1, -7, 3)
    failed = toy.run("dagster", "job", "execute", "-m", "pipelines.definitions", "-j", "refinery")
    assert failed.returncode != 0
    assert last_check(toy)["status"] == "FAILED"
    assert not (toy.root / "data/numbers/number_rows.parquet").exists()
    assert not (toy.root / "data/numbers/doubled.parquet").exists()
    later = toy.pipelines("run", "doubled")
    assert later.returncode == 1, "a later run of the consumer alone is refused too"
    assert "number_rows failed its gate" in later.stderr


def test_an_empty_table_is_refused(toy: Project) -> None:
    toy.numbers()
    refused = toy.dvc("repro")
    assert refused.returncode != 0
    assert "expect_table_row_count_to_be_between" in refused.stderr
