"""What every test stands on: no telemetry, no network, one thread, real data where it is present."""

import os
from pathlib import Path

import pytest

os.environ |= {
    "GX_ANALYTICS_ENABLED": "false",
    "DVC_NO_ANALYTICS": "1",
    "DAGSTER_DISABLE_TELEMETRY": "yes",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # read by torch, numpy and polars' helpers when they are imported
    "TOKENIZERS_PARALLELISM": "false",
}

pytest_plugins = ["pytester", "tests.claims"]

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the tests marked full instead of leaving them out")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def shared_data():
    """Folder of the real feedback beside the project."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real feedback absent: {SHARED_DATA}")
    return SHARED_DATA
