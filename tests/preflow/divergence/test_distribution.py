"""Fitted, evaluated and asked, in a world where people's tastes are polarised and one where they are not."""

import json
from pathlib import Path

import pytest
import torch

from preflow.divergence.distribution import Fitted, NotFitted, fit_distribution
from preflow.divergence.evaluation import NAMES
from preflow.divergence.rewards import MeanVariance, load_reward
from preflow.divergence.schemas import PredictedDivergence
from preflow.evaluation import auroc
from tests.preflow.divergence.conftest import SIZES, drawn_taste, voted

HOW = {
    "widths": [16],
    "l2_grid": [0.0, 0.01],
    "lr": 0.01,
    "epochs": 15,
    "batch_size": 64,
    "rho": 0.0,
    "sigma_floor": 0.05,
    "lambda_grid": [0.0, 1.0, 4.0],
    "bootstrap": 2000,
    "encoder": "none",
    "threads": 1,
    "seed": 0,
}


@pytest.fixture(scope="module")
def polarised():
    return voted(drawn_taste(style=2.0))


@pytest.fixture(scope="module")
def fitted(polarised):
    return fit_distribution(polarised, **HOW)


def written(fitted: Fitted, folder: Path) -> dict[str, bytes]:
    fitted.model.save_pretrained(folder / "model")
    fitted.predicted.write_parquet(folder / "predicted.parquet")
    (folder / "evaluation.json").write_text(json.dumps(fitted.evaluation))
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_polarised_taste_is_found_and_its_reward_foretells_divergence(fitted, polarised):
    found = fitted.evaluation
    assert found["not_fitted"] is None
    assert found["comparisons"] == SIZES["test"]
    assert found["lambda"] > 0
    assert found["auroc_difference"]["low"] > 0
    assert found["accuracy"][NAMES[0]]["low"] > 0.5
    predicted = PredictedDivergence.validate(fitted.predicted)
    assert predicted["pair_id"].to_list() == polarised.table["pair_id"].to_list()
    test = (polarised.table["split"] == "test").to_numpy()
    score, diverging = (
        column.to_numpy()[test] for column in (predicted["diverging_score"], polarised.table["diverging"])
    )
    assert auroc(score, diverging) == pytest.approx(found["auroc"][NAMES[0]], abs=1e-3)


def test_where_nobody_minds_style_the_spread_adds_nothing():
    found = fit_distribution(voted(drawn_taste(style=0.0)), **HOW).evaluation
    assert found["auroc_difference"]["low"] <= 0 <= found["auroc_difference"]["high"]


def test_the_saved_model_says_the_same(fitted, polarised, tmp_path):
    assert isinstance(fitted.model, MeanVariance)
    fitted.model.save_pretrained(tmp_path)
    loaded = load_reward(tmp_path)
    assert loaded.config["inputs"] == {"encoder": "none"}
    a = polarised.pairs.a
    assert all(torch.equal(*both) for both in zip(loaded.moments(a), fitted.model.moments(a), strict=True))


def test_the_same_bytes_twice(fitted, polarised, tmp_path):
    once, again = (
        written(each, tmp_path / name)
        for name, each in (("once", fitted), ("again", fit_distribution(polarised, **HOW)))
    )
    assert set(once) == {"model.safetensors", "config.json", "predicted.parquet", "evaluation.json"}
    assert once == again


def test_without_votes_a_reason_stands_for_the_model(polarised, tmp_path):
    found = fit_distribution(polarised.of("no split"), **HOW)
    assert isinstance(found.model, NotFitted)
    assert PredictedDivergence.validate(found.predicted).is_empty()
    reason = found.evaluation["not_fitted"]
    assert reason.startswith("of the train split 0 comparisons have votes of two annotators or more")
    assert found.evaluation == {"not_fitted": reason}
    found.model.save_pretrained(tmp_path / "model")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["config.json"]
    assert json.loads((tmp_path / "model" / "config.json").read_text()) == {"not_fitted": reason}
