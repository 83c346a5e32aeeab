"""Every profile is a params.yaml that the stages take: the same sections and keys, values of their types, in range."""

from pathlib import Path

import pytest

from pipelines.graph import Graph
from pipelines.params import load_sections
from preflow.policies.recipe import Recipe

ROOT = Path(__file__).parents[1]
PROFILES = sorted((ROOT / "profiles").glob("*.yaml"))


def test_there_are_profiles():
    assert [path.stem for path in PROFILES] == ["cpu_text", "one_gpu_7b"]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_a_profile_fits(path):
    classes = {name: type(section) for name, section in Graph(ROOT).params.items()}
    params = load_sections(path, classes)
    recipe = Recipe(**params["training"].recipe.model_dump())
    assert recipe.batch_size % recipe.micro_batch_size == 0
    assert params["augmentation"].text().say((7.0,) * len(params["augmentation"].attributes))
