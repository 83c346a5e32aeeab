"""The stages of concepts, called as the plain functions they are, on a small part of the digits."""

import numpy as np
import polars as pl
import pytest
import torch

from assets.concepts import (
    ConceptsParams,
    doubt_concept_labels,
    measure_concepts,
    plant_concept_noise,
    read_concepts,
    train_bottlenecks,
)
from pipelines import ROOT
from pipelines.graph import Graph
from preflow.concepts.schemas import ConceptPredictions, ConceptRuns, ConceptScores, DoubtedLabels, FlipRates
from preflow.concepts.sweep import load_bottlenecks

GRAPH = Graph(ROOT)


def changed(**values):
    params = GRAPH.params["concepts"]
    assert isinstance(params, ConceptsParams)
    small = params.bottleneck.model_copy(update={"epochs": 12, "checkpoints": 3})
    return params.model_copy(update={"bottleneck": small, "lambdas": [4.0, 16.0], "seeds": [1, 2], **values})


def outputs(generator):
    return {output.output_name: output.value for output in generator}


@pytest.fixture(scope="module")
def params():
    return changed()


@pytest.fixture(scope="module")
def data(params):
    return outputs(read_concepts(concepts=params))


@pytest.fixture(scope="module")
def labels(data, params):
    return plant_concept_noise(data["concept_items"], data["concept_names"], data["concept_labels"], concepts=params)


@pytest.fixture(scope="module")
def trained(data, labels, params):
    return outputs(train_bottlenecks(data["concept_items"], data["concept_names"], labels[0], concepts=params))


@pytest.fixture(scope="module")
def doubted(data, labels, params):
    return doubt_concept_labels(data["concept_items"], data["concept_names"], labels[0], concepts=params)


@pytest.fixture(scope="module")
def measured(data, labels, trained, doubted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "kept"
    trained["concept_bottleneck_model"].save_pretrained(folder)
    return outputs(
        measure_concepts(
            data["concept_items"], data["concept_names"], *labels, trained["concept_runs"],
            trained["concept_predictions"], folder, *doubted,
        )
    )  # fmt: skip


def test_every_loss_weight_seed_and_checkpoint_is_a_run(trained, params):
    runs = ConceptRuns.validate(trained["concept_runs"].collect())
    assert len(runs) == len(params.losses) * len(params.lambdas) * len(params.seeds) * 2
    chosen = runs.filter("chosen").group_by("method", "seed", "checkpoint").len()
    assert chosen["len"].to_list() == [1] * (len(params.losses) * len(params.seeds) * 2)
    assert runs["reduction"].unique().to_list() == ["mean"]
    cpo = runs.filter(pl.col("loss") == "cpo_joint")
    assert set(cpo.select("beta", "samples").iter_rows()) == {(0.1, 1)}
    predictions = ConceptPredictions.validate(trained["concept_predictions"].collect())
    assert len(predictions) == len(runs) * 1797


def test_kept_models_are_those_whose_predictions_were_kept(trained, data, labels, tmp_path):
    trained["concept_bottleneck_model"].save_pretrained(tmp_path / "kept")
    read = load_bottlenecks(tmp_path / "kept")
    assert len(read.kept) == 6
    one = read.kept[0]
    run = trained["concept_runs"].filter("chosen", method=one.method, seed=one.seed, checkpoint="best").collect()
    assert run["lambda"].to_list() == [one.weight]
    item = data["concept_items"].first().collect()
    known = trained["concept_predictions"].filter(run=run["run"][0], item_id=item["item_id"][0]).collect()
    inputs = torch.tensor([item["features"][0].to_list()])
    logits, _ = one.model(inputs, torch.full((1, len(read.concepts)), torch.nan))
    assert np.allclose(logits.detach().numpy()[0], known["concept_logits"][0].to_numpy(), atol=1e-5)


def test_what_is_measured_is_far_from_chance(measured):
    scores = ConceptScores.validate(measured["concept_scores"].collect())
    chosen = scores.filter("chosen")
    assert chosen["concept_auc"].min() > 0.8
    assert chosen["task_accuracy"].min() > 0.8
    assert chosen["memorised"].max() < 0.5
    report = measured["concept_report"]
    assert report["baseline"] == "bce"
    assert {row["method"] for row in report["against_baseline"]} == {"cpo_joint, beta 0.1", "symmetric_bce, weight 0.1"}
    assert {row["corrected"] for row in report["interventions"]} == set(range(23))


def test_doubts_find_planted_flips(measured, doubted):
    queue, rates = (table.collect() for table in doubted)
    DoubtedLabels.validate(queue)
    FlipRates.validate(rates)
    found = measured["concept_report"]["doubts"]
    assert found["planted"] == int(0.3 * found["labels"])
    assert found["queue"] > 0.7, "chance is .3"
    assert found["flip_rate_error"] < 0.1


def test_labels_as_they_are_have_nothing_to_find(data):
    params = changed(noise=GRAPH.params["concepts"].noise.model_copy(update={"model": "none"}))
    noisy, truth = plant_concept_noise(
        data["concept_items"], data["concept_names"], data["concept_labels"], concepts=params
    )
    both = noisy.join(truth, on=["item_id", "concept"]).collect()
    assert len(both) > 30_000
    assert (both["value"] == both["value_right"]).all()
    assert not both["flipped"].any()


def test_no_training_stage_may_read_the_truth():
    truth = {name for name, output in GRAPH.outputs.items() if output.truth}
    assert truth == {"concept_labels", "true_concept_labels"}
    trains = [stage for stage in GRAPH.stages.values() if stage.name in ("train_bottlenecks", "doubt_concept_labels")]
    assert len(trains) == 2
    for stage in trains:
        assert not truth & {up.asset for up in stage.upstream}
