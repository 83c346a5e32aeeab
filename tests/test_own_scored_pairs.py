"""A user's own scored pairs, from the file they wrote to the comparison of policies, by changing params.yaml alone."""

import itertools
import json
import shutil
from pathlib import Path

import dagster as dg
import numpy as np
import polars as pl
import pytest
import torch
from ruamel.yaml import YAML

from pipelines.definitions import resources
from pipelines.graph import Graph
from preflow.policies.policy import Policy
from preflow.world.policy import demonstrated_policy
from preflow.world.tasks import distinct_tasks, task_stream
from preflow.world.tokenizer import world_tokenizer
from preflow.world.writers import Habits, demonstrations

ROOT = Path(__file__).parents[1]
# Great Expectations 1.24 imports modules that Python 3.11 has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:great_expectations.*")
TASKS = {"families": ["copy"], "levels": [1, 2]}
COMPARED = ["untreated", "reward_augmented", "easiest_share", "random_share"]


def own_model(folder):
    """A model of the user's: a folder in the save_pretrained form."""
    torch.set_num_threads(1)
    tasks = itertools.islice(task_stream(np.random.default_rng(0), **TASKS), 600)
    habits = Habits(error=0.3, cut=0.3, refusal=0.0, style=0.0)
    shown = demonstrations(tasks, habits, np.random.default_rng(0), system_share=0.3, true_share=1.0)
    settings = {"steps": 60, "early_step": 60, "batch_size": 32, "learning_rate": 5e-3, "seed": 0}
    Policy(demonstrated_policy("tiny", world_tokenizer(), shown, **settings).late, world_tokenizer()).save_pretrained(
        folder
    )


def own_pairs(path, n=240):
    """A jsonl of the user's: prompt, chosen, rejected, and a score for each; the last row is broken."""
    tasks = distinct_tasks(n, np.random.default_rng(1), **TASKS, exclude=frozenset())
    rows = []
    for number, task in enumerate(tasks):
        full, half = " ".join(task.answer), " ".join(task.answer[: len(task.answer) // 2])
        texts = {"prompt": task.prompt, "chosen": full, "rejected": half}
        rows.append(json.dumps(texts | {"score_chosen": 8 + number % 3, "score_rejected": number % 4}))
    path.write_text("\n".join([*rows, '{"prompt": "copy : a b", "chosen": "a b"']) + "\n")


def own_params(path, *, feedback, model):
    """The project's params.yaml with another file, another model, and less of everything."""
    yaml = YAML(typ="rt")
    params = yaml.load(ROOT / "params.yaml")
    params["feedback"]["path"] = str(feedback)
    params["policy"]["start"] = str(model)
    params["training"]["recipe"] |= {"epochs": 2.0, "batch_size": 32, "micro_batch_size": 32, "learning_rate": 1e-3}
    params["difficulty"] |= {"seeds": [1, 2], "checkpoints": 1, "shares": [0.5, 0.8], "share_seeds": [1]}
    params["treatments"] |= {"compared": COMPARED, "seeds": [1], "samples": 1, "goals": [2.0, 9.0]}
    yaml.dump(params, path)


def test_own_scored_pairs_reach_the_comparison(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "test")  # the outputs are not recorded in a lock
    own_pairs(tmp_path / "mine.jsonl")
    own_model(tmp_path / "model")
    root = tmp_path / "project"
    root.mkdir()
    shutil.copytree(ROOT / "inputs", root / "inputs")
    own_params(root / "params.yaml", feedback=tmp_path / "mine.jsonl", model=tmp_path / "model")
    for package in ("preflow", "assets", "pipelines"):
        (root / package).symlink_to(ROOT / package)
    monkeypatch.chdir(root)
    graph = Graph(root)
    given = resources(graph)
    assets = [item for item in graph.assets if "data_docs" not in item.op.name]
    done = dg.materialize(
        [*graph.external, *assets],
        resources=given,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    given["table"].locks.release()
    assert done.success
    treated = pl.read_parquet(root / "data/treatments/treated_pairs.parquet").filter("kept")
    sizes = dict(treated.group_by("treatment").len().rows())
    assert sorted(sizes) == sorted(COMPARED)
    assert sizes["reward_augmented"] == 2 * sizes["untreated"]
    assert sizes["easiest_share"] == sizes["random_share"] < sizes["untreated"]
    scores = pl.read_parquet(root / "data/difficulty/difficulty_scores.parquet")
    assert set(scores["pair_id"]) == set(treated.filter(treatment="untreated")["pair_id"])
    comparison = json.loads((root / "metrics/comparison/policy_comparison.json").read_text())
    assert {row["treatment"] for row in comparison["policies"]} == {*COMPARED, "start"}
    compared = {(row["judge"], row["treatment"], row["baseline"]) for row in comparison["contrasts"]}
    assert ("reward", "reward_augmented", "untreated") in compared
    assert "What each treatment is worth" in (root / "reports/report.html").read_text()
