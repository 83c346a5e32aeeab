"""Where annotators differ, why, and what a reward knows of it: the assets as plain functions on small tables."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from assets.divergence import (
    CausesParams,
    DistributionParams,
    DivergenceParams,
    GroupsParams,
    ThresholdsParams,
    classify,
    explain,
    fit_distribution,
)
from assets.endpoint import EndpointParams
from assets.reward import RewardParams
from assets.training import RecipeParams, TrainingParams
from preflow.audit.schemas import AnnotatorQuality
from preflow.audit.votes import summarise_votes
from preflow.divergence.rewards import load_reward
from preflow.divergence.schemas import AgreementClasses, AnnotatorClusters, PredictedDivergence
from preflow.reasons.schemas import DivergenceReasons, ReasonRemainders
from preflow.reasons.tagger import ReasonTagger
from preflow.tokens import text_id
from tests.preflow.divergence.test_language_model import RECIPE, start
from tests.preflow.endpoint.server import endpoint, judging
from tests.preflow.feedback import comparison, comparisons, vote, votes
from tests.preflow.reasons.conftest import THRESHOLDS

SCHEMAS = {
    "agreement_classes": AgreementClasses,
    "annotator_clusters": AnnotatorClusters,
    "divergence_reasons": DivergenceReasons,
    "reason_remainders": ReasonRemainders,
    "predicted_divergence": PredictedDivergence,
}
DISTRIBUTION = DistributionParams(
    backbone="embeddings",
    widths=[],
    l2_grid=[0.1],
    lr=0.01,
    epochs=2,
    batch_size=16,
    rho=0.0,
    sigma_floor=0.05,
    lambda_grid=[0.0, 1.0],
    bootstrap=2000,
)
DIVERGENCE = DivergenceParams(
    annotator_kinds=["person", "model"],
    groups=GroupsParams(min_agreement=0.4, min_shared=5, max_p=0.01, permutations=99),
    causes=CausesParams(
        rush_share=0.4,
        shrinkage=5.0,
        planted_pairs=300,
        inverse_l2=1.0,
        folds=2,
        min_probability=0.5,
        min_reasons=2,
        phrases=3,
        endpoint=None,
        answers=".cache/unused.sqlite",
    ),
    thresholds=ThresholdsParams(**asdict(THRESHOLDS)),
    reward=DISTRIBUTION,
    seed=0,
)
REWARD = RewardParams(
    encoder="package:all-MiniLM-L6-v2",
    max_tokens=32,
    batch_size=8,
    threads=1,
    store="unused",
    l2_grid=[0.1],
    folds=2,
    bootstrap=2000,
    bins=5,
    seed=0,
)
TRAINING = TrainingParams(
    recipe=RecipeParams(**asdict(RECIPE)), max_pairs=100, min_pairs=2, store=".cache/unused", threads=1, seed=0
)
ROWS = [
    comparison(f"What is good about number {n}?", f"It is number {n} and I like it a lot.", f"Number {n} is odd!")
    for n in range(48)
]
SPLITS = ["train"] * 24 + ["validation"] * 12 + ["test"] * 12
Vote = dict[str, Any]


def everyone() -> list[Vote]:
    """Three people, who differ on every third comparison, and a label that is no opinion."""
    cast = []
    for n, row in enumerate(ROWS):
        last = "b" if n % 3 == 0 else "a"
        cast += [vote(row["pair_id"], name, side, strength=2) for name, side in (("x", "a"), ("y", "a"), ("z", last))]
        cast.append(vote(row["pair_id"], "owner", "b", annotator_kind="label"))
    return cast


def run(cast: list[Vote], folder: Path) -> dict[str, Any]:
    """Runs the three stages; models are saved below `folder` by their names."""
    frame, given = comparisons(ROWS), votes(cast)
    quality = AnnotatorQuality.create_empty()
    if cast:
        _, quality, _ = summarise_votes(frame, given, worker_model="dawid_skene", iterations=1, seed=0)
    texts = sorted({row[f"response_{side}"] for row in ROWS for side in "ab"})
    vectors = np.random.default_rng(0).normal(size=(len(texts), 4)).tolist()
    embeddings = pl.LazyFrame({"text_id": [text_id(text) for text in texts], "embedding": vectors})
    splits = pl.LazyFrame({"pair_id": [row["pair_id"] for row in ROWS], "split": SPLITS})
    classes, clusters, counts = classify(frame, given, divergence=DIVERGENCE)
    made = {"agreement_classes": classes, "annotator_clusters": clusters, "divergence_counts": counts}
    stages = (
        explain(frame, given, quality.lazy(), divergence=DIVERGENCE),
        fit_distribution(frame, given, classes, splits, embeddings, Path("nowhere"), REWARD, TRAINING, DIVERGENCE),
    )
    made |= {output.output_name: output.value for stage in stages for output in stage}
    for name in ("reason_tagger", "distributional_reward_model"):
        made[name].save_pretrained(folder / name)
    return made | {name: schema.validate(made[name].collect()) for name, schema in SCHEMAS.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("voted")
    return folder, run(everyone(), folder)


def test_what_the_stages_say_fits_together(made: tuple[Path, dict[str, Any]]) -> None:
    folder, found = made
    counts = found["divergence_counts"]
    assert (counts["all"]["diverging"], counts["all"]["preference"]) == (16, 32), "the owner's label is no vote"
    assert (counts["groups"], counts["n_groups"], counts["groups_p"]) == ("too_few_shared_pairs", 0, None)
    assert found["annotator_clusters"]["annotator"].to_list() == ["x", "y", "z"]
    diverging = found["agreement_classes"].filter(pl.col("agreement_class") == "diverging")["pair_id"]
    assert set(found["reason_remainders"]["pair_id"]) == set(diverging)
    assert set(found["divergence_reasons"]["pair_id"]) <= set(diverging)
    assert len(found["predicted_divergence"]) == len(ROWS)
    evaluation = found["divergence_evaluation"]
    assert (evaluation["not_fitted"], evaluation["comparisons"], evaluation["diverging"]) == (None, 12, 4)
    assert load_reward(folder / "distributional_reward_model").config["inputs"] == {"encoder": REWARD.encoder}
    assert ReasonTagger.from_pretrained(folder / "reason_tagger").columns == found["reason_tagger"].columns


def test_the_same_bytes_twice(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, found = made
    again = run(everyone()[::-1], tmp_path)
    assert all(found[name].equals(again[name]) for name in SCHEMAS)
    assert found["divergence_counts"] == again["divergence_counts"]
    assert found["divergence_evaluation"] == again["divergence_evaluation"]
    saved = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert len(saved) == 4
    assert all((folder / path).read_bytes() == (tmp_path / path).read_bytes() for path in saved)


NOTHING: dict[str, list[Vote]] = {
    "no votes": [],
    "labels alone": [vote(row["pair_id"], "owner", "a", annotator_kind="label") for row in ROWS],
    "one vote each": [vote(row["pair_id"], "xyz"[n % 3], "ab"[n % 2]) for n, row in enumerate(ROWS)],
    "one choice": [vote(row["pair_id"], name, "a") for row in ROWS for name in "xyz"],
}


@pytest.mark.parametrize("cast", NOTHING.values(), ids=NOTHING.keys())
def test_where_nobody_differs_tables_are_empty_and_a_reason_stands_for_the_model(
    cast: list[Vote], tmp_path: Path
) -> None:
    found = run(cast, tmp_path)
    assert len(found["agreement_classes"]) == len(ROWS)
    assert found["divergence_counts"]["all"]["diverging"] == found["divergence_counts"]["careless"] == 0
    assert found["divergence_counts"]["groups"] == "too_few_shared_pairs"
    assert [len(found[name]) for name in ("divergence_reasons", "reason_remainders", "predicted_divergence")] == [0] * 3
    reason = found["divergence_evaluation"]["not_fitted"]
    assert "of the train split" in reason
    model = tmp_path / "distributional_reward_model"
    assert [path.name for path in model.iterdir()] == ["config.json"]
    assert json.loads((model / "config.json").read_text()) == {"not_fitted": reason}


def test_people_who_never_change_their_choice_differ(tmp_path: Path) -> None:
    cast = [vote(row["pair_id"], name, side) for row in ROWS for name, side in (("x", "a"), ("y", "b"))]
    found = run(cast, tmp_path)
    assert found["divergence_counts"]["all"]["diverging"] == len(ROWS)
    assert found["reason_remainders"]["pair_id"].n_unique() == len(ROWS)
    assert "on 24 of them they differ" in found["divergence_evaluation"]["not_fitted"]


def test_the_start_policy_as_backbone_says_what_it_cannot_read(tmp_path: Path) -> None:
    start().save_pretrained(tmp_path / "start")
    reward = DISTRIBUTION.model_copy(update={"backbone": "policy"})
    frame, given = comparisons(ROWS), votes(everyone())
    splits = pl.LazyFrame({"pair_id": [row["pair_id"] for row in ROWS], "split": SPLITS})
    classes = classify(frame, given, divergence=DIVERGENCE)[0]
    outputs = fit_distribution(
        frame,
        given,
        classes,
        splits,
        pl.LazyFrame(),
        tmp_path / "start",
        REWARD,
        TRAINING.model_copy(update={"store": str(tmp_path / "store")}),
        DIVERGENCE.model_copy(update={"reward": reward}),
    )
    found = {output.output_name: output.value for output in outputs}
    assert found["divergence_evaluation"]["not_fitted"].endswith("the policy can read 0 of 48")
    assert found["predicted_divergence"].collect().is_empty()


def test_a_negative_correlation_is_refused() -> None:
    with pytest.raises(ValidationError, match="rho"):
        DistributionParams(**DISTRIBUTION.model_dump() | {"rho": -0.1})


def test_a_language_model_can_name_causes_too(tmp_path: Path) -> None:
    with judging(lambda a, b: '["aesthetic_taste"]') as (url, requests):
        asked = {"endpoint": EndpointParams(**asdict(endpoint(url))), "answers": str(tmp_path / "answers")}
        causes = DIVERGENCE.causes.model_copy(update=asked)
        params = DIVERGENCE.model_copy(update={"causes": causes})
        quality = AnnotatorQuality.create_empty().lazy()
        outputs = explain(comparisons(ROWS), votes(everyone()), quality, divergence=params)
        found = {output.output_name: output.value for output in outputs}
    by_endpoint = found["divergence_reasons"].filter(pl.col("source") == "endpoint").collect()
    assert by_endpoint["label"].to_list() == ["aesthetic_taste"] * 16
    assert len(requests) == 2 * 16
