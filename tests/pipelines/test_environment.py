"""Dagster and DVC live in one environment: see the pins of hydra-core, omegaconf and antlr4 in pyproject.toml."""

import dagster as dg
import pytest
from dvc.utils.hydra import compose_and_dump


def test_dagster_parses_string_selections() -> None:
    """With ANTLR 4.9, which older omegaconf pins, this raises TypeError."""
    assert "down" in str(dg.AssetSelection.from_string("key:down+"))


@pytest.mark.filterwarnings("ignore:The version_base parameter")
def test_dvc_composes_hydra_overrides(tmp_path) -> None:
    """With ANTLR 4.13 under an older omegaconf, this cannot deserialize its grammar. `dvc exp run -S` rests on it."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/config.yaml").write_text("x: 1\n")
    compose_and_dump(str(tmp_path / "out.yaml"), str(tmp_path / "conf"), None, "config", "", ["x=2"])
    assert "2" in (tmp_path / "out.yaml").read_text()
