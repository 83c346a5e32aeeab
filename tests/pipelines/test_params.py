"""Params come from one YAML 1.2 parser into strict types; what is wrong is named before any work starts."""

from pathlib import Path

import pytest
from pydantic import Field

from pipelines.params import ParamsError, load_sections, read_yaml
from preflow.params import Params, ProjectPath
from tests.pipelines.conftest import Project


class Training(Params):
    """A section."""

    lr: float = Field(gt=0)
    """Learning rate; above 0."""
    flag: bool
    """Yes or no."""
    path: ProjectPath
    """Where."""


GOOD = "training:\n  lr: 1e-4\n  flag: true\n  path: data/x\n"


def sections(folder: Path, text: str) -> dict:
    (folder / "params.yaml").write_text(text)
    return load_sections(folder / "params.yaml", {"training": Training})


def test_yaml_is_version_1_2(tmp_path: Path) -> None:
    """PyYAML (1.1) reads these as "1e-4", False, 8 and 45045; DVC and we read them alike."""
    (tmp_path / "p.yaml").write_text("a: 1e-4\nb: no\nc: 010\nd: 12:30:45\n")
    assert read_yaml(tmp_path / "p.yaml") == {"a": 0.0001, "b": "no", "c": 10, "d": "12:30:45"}
    assert sections(tmp_path, GOOD)["training"] == Training(lr=0.0001, flag=True, path="data/x")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GOOD.replace("lr: 1e-4", "lr: '1e-4'"), "training.lr: Input should be a valid number"),
        (
            GOOD.replace("lr: 1e-4", "lr: 0"),
            "greater than 0, not 0; Learning rate; above 0.",
        ),
        (GOOD.replace("lr: 1e-4", "lr: .inf"), "training.lr: Input should be a finite number"),
        (GOOD.replace("true", "no"), "training.flag: Input should be a valid boolean, not 'no'"),
        (GOOD + "  rate: 2\n", "training.rate: unknown key; training has lr, flag, path"),
        (GOOD.replace("  flag: true\n", ""), "training.flag: missing; Yes or no."),
        (GOOD + "other:\n  x: 1\n", "unknown section 'other'; known sections: training"),
        ("{}", "section 'training' is missing"),
        ("[]", "must be a mapping of sections"),
        (GOOD + GOOD, "not valid YAML 1.2"),
        (GOOD.replace("data/x", "data/../../x"), "training.path: leaves the project"),
        (GOOD.replace("data/x", "https://example.org/x"), "training.path: is an address"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ParamsError) as raised:
        sections(tmp_path, text)
    assert named in str(raised.value)


def test_an_absolute_path_may_leave_the_project(tmp_path: Path) -> None:
    assert sections(tmp_path, GOOD.replace("data/x", "/elsewhere"))["training"].path == "/elsewhere"


def test_bad_params_stop_before_work_starts(toy: Project) -> None:
    toy.params(factor="two")
    refused = toy.dvc("repro")
    assert refused.returncode != 0
    assert "numbers.factor: Input should be a valid integer, not 'two'" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert toy.outputs() == {}
