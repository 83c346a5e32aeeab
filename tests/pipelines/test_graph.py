"""The graph of the project itself: complete in the UI, and dvc.yaml is what it says."""

import dagster as dg
import pytest
from ruamel.yaml import YAML

from pipelines import ROOT, dvcfile
from pipelines.definitions import build
from pipelines.graph import Graph
from tests.pipelines.conftest import Project


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph(ROOT)


def test_dvc_yaml_is_what_the_assets_say(graph: Graph) -> None:
    assert (ROOT / "dvc.yaml").read_text() == dvcfile.render(graph.stages.values()), "run `python -m pipelines dvc`"


def test_every_asset_says_what_the_ui_shows(graph: Graph) -> None:
    specs = [spec for item in graph.assets for spec in item.specs]
    assert len(specs) == len(graph.outputs) > 20
    for spec in specs:
        assert spec.group_name not in (None, "default"), spec.key
        assert spec.owners, spec.key
        assert spec.kinds, spec.key
        assert spec.description, spec.key
        assert spec.code_version, spec.key
        assert spec.metadata["path"], spec.key


def test_every_table_declares_its_columns(graph: Graph) -> None:
    tables = [output for output in graph.outputs.values() if output.kind == "table"]
    assert len(tables) > 8
    specs = {spec.key.to_user_string(): spec for item in graph.assets for spec in item.specs}
    for table in tables:
        columns = specs[table.asset].metadata["dagster/column_schema"].columns
        assert [column.name for column in columns] == table.schema.column_names()
        assert all(column.description for column in columns), table.asset


def test_every_table_has_one_blocking_check(graph: Graph) -> None:
    keys = build(graph).resolve_asset_graph().asset_check_keys
    tables = {output.asset for output in graph.outputs.values() if output.kind == "table"}
    assert {key.asset_key.to_user_string() for key in keys} == tables
    assert len(keys) == len(tables)


def test_no_output_is_written_twice(graph: Graph) -> None:
    files = [path for stage in graph.stages.values() for path in stage.files]
    assert len(files) == len(set(files)) > 20


def test_definitions_load_with_job_schedule_and_sensor(graph: Graph) -> None:
    definitions = build(graph)
    dg.Definitions.validate_loadable(definitions)
    assert definitions.resolve_job_def("refinery").asset_layer.executable_asset_keys
    assert definitions.resolve_schedule_def("nightly").execution_timezone == "UTC"
    assert definitions.resolve_sensor_def("dvc_lock").default_status == dg.DefaultSensorStatus.RUNNING


def test_an_unknown_stage_is_named_with_the_known_ones(graph: Graph) -> None:
    assert graph.select("splits").name == "deduplicate"
    with pytest.raises(KeyError, match="no stage or asset 'splts'; stages: aggregate_votes, "):
        graph.select("splts")


def test_training_on_the_truth_is_refused(toy: Project) -> None:
    module = toy.root / "assets" / "numbers.py"
    text = module.read_text()
    marked = text.replace("python_artifact(Numbers)})", "python_artifact(Numbers), 'truth': True})", 1)
    cheat = """

@dg.asset(io_manager_key="model")
def cheat(number_rows: pl.LazyFrame) -> None:
    \"\"\"A model that has seen the truth.\"\"\"
"""
    module.write_text(marked)
    assert toy.pipelines("dvc").returncode == 0, "tables may be made of the truth"
    module.write_text(marked + cheat)
    refused = toy.pipelines("dvc")
    assert refused.returncode != 0
    assert "stage cheat trains and reads number_rows, which is marked as truth" in refused.stderr


def test_the_lock_holds_no_stage_that_is_gone(graph: Graph) -> None:
    locked = YAML(typ="safe").load(ROOT / "dvc.lock")["stages"]
    assert len(locked) > 20
    assert locked.keys() <= graph.stages.keys(), "delete the blocks of these stages: DVC keeps them for ever"
