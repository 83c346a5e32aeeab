"""The stages of a distillation, called as the plain functions they are, on models that are made in a second."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from assets.distil import DistilParams, distil_students, report_hacking
from assets.oracle import OracleParams, teach
from pipelines import ROOT
from pipelines.graph import Graph
from preflow.distil.prompt_sources import world_prompts
from preflow.distil.schemas import DistilCurve, DistilEpochs, DistilRuns, OracleData

GRAPH = Graph(ROOT)
ORACLE, DISTIL = (GRAPH.params[name].model_dump() for name in ("oracle", "distil"))
SMALL = {"epochs": 3, "batch_size": 20, "width": 8, "lr": 1e-2}


def oracle_params(**models):
    small = {"teacher": SMALL, "student": SMALL, "prompts": {"oracle": 60, "distillation": 30, "validation": 40}}
    return OracleParams(**ORACLE | {"models": ORACLE["models"] | small | models})


def distil_params(**values):
    few = [one | {"prompts": min(one["prompts"], 30)} for one in DISTIL["regimes"]]
    return DistilParams(**DISTIL | {"regimes": few, "updates": 40, "checkpoints": 10} | values)


def outputs(generator):
    return {output.output_name: output.value for output in generator}


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """What `teach` made, its models as the folders that the other stages read."""
    made, folder = outputs(teach(oracle=oracle_params())), tmp_path_factory.mktemp("models")
    for name in ("oracle_model", "teacher_model", "student_init"):
        made[name].save_pretrained(folder / name)
        made[name] = folder / name
    return made


def students(taught, **values):
    return outputs(distil_students(**taught, oracle=oracle_params(), distil=distil_params(**values)))


@pytest.fixture(scope="module")
def distilled(taught):
    return students(taught)


@pytest.fixture(scope="module")
def reported(distilled):
    given = {name: distilled[name] for name in ("distil_curves", "distil_epochs", "teacher_storage")}
    return outputs(report_hacking(**given, distil=distil_params()))


def test_every_regime_and_seed_is_a_run_and_the_first_seeds_students_are_kept(taught, distilled, tmp_path):
    data = OracleData.validate(taught["oracle_data"].collect())
    assert len(data) == 3 * (60 + 30 + 40)
    curves = DistilCurve.validate(distilled["distil_curves"].collect())
    assert len(curves) == 5 * 3 * 11
    DistilEpochs.validate(distilled["distil_epochs"].collect())
    distilled["distilled_student"].save_pretrained(tmp_path)
    names = {one["name"] for one in DISTIL["regimes"]}
    assert {path.name for path in tmp_path.iterdir()} == names
    load = oracle_params().family().load
    assert load(tmp_path / "offline_60").language.vocabulary == 20


def test_the_report_has_a_verdict_of_every_run_an_alarm_and_remedies(reported):
    runs = DistilRuns.validate(reported["distil_runs"].collect())
    assert len(runs) == 5 * 3
    assert runs["verdict"].null_count() == 0
    report = reported["hacking_report"]
    assert report["oracle"]
    assert report["alarms"]["online_teacher"]["runs"] == report["alarm"]["runs"] == 3
    assert {row["remedy"] for row in report["remedies"]} == {one["name"] for one in DISTIL["regimes"]} - {"offline_60"}
    assert report["storage"] == {"top_k": None, "error": None}
    assert reported["proxy_golden"]["height"] == reported["distance_curves"]["height"] == 240


def test_truncated_targets_are_reported_with_what_they_cost(taught):
    errors = [students(taught, top_k=k)["teacher_storage"]["error"] for k in (4, 16)]
    assert errors[0]["kl"] > 10 * errors[1]["kl"] > 0
    assert errors[0]["bytes_share"] == pytest.approx(2 * 4 / 20)


def test_early_stopping_leaves_the_control_alone(taught, distilled):
    stopped = students(taught, early_stopping=True, false_alarm_rate=0.4)["distil_curves"].collect()
    whole = distilled["distil_curves"].collect()
    assert stopped.filter(regime="online_teacher").equals(whole.filter(regime="online_teacher"))
    assert len(stopped) <= len(whole)


def own_teacher(folder):
    """Transformers without an oracle, on prompts of a file."""
    rng, file = np.random.default_rng(0), folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in world_prompts(40, rng)))
    as_it_is = {"model": "world:tiny", "epochs": 0, "batch_size": 20, "lr": 1e-3}
    running = {"max_prompt_tokens": 40, "max_response_tokens": 6, "sampling_batch": 64, "micro_batch_size": None}
    models = {
        "kind": "transformers", "oracle": None, "oracle_seed": 0, "teacher": as_it_is, "student": as_it_is,
        "prompts_from": "file", "prompts": {"oracle": 1, "distillation": 20, "validation": 20},
        "running": running | {"bf16": False}, "cache": str(folder),
    }  # fmt: skip
    return OracleParams(**ORACLE | {"models": models, "prompts_file": str(file)})


def test_a_teacher_of_ones_own_goes_through_the_same_stages_without_an_oracle(tmp_path):
    params = own_teacher(tmp_path)
    taught = outputs(teach(oracle=params))
    assert taught["oracle_data"].select("response").collect()["response"].null_count() == 3 * 40
    for name in ("oracle_model", "teacher_model", "student_init"):
        taught[name].save_pretrained(tmp_path / name)
        taught[name] = tmp_path / name
    assert [path.name for path in (tmp_path / "teacher_model").glob("seed-*")] == ["seed-0"], "all seeds share it"
    some = [one | {"prompts": 20} for one in DISTIL["regimes"] if one["name"] in ("offline_60", "online_teacher")]
    how = distil_params(regimes=some, updates=10, lr=1e-2)
    found = outputs(distil_students(**taught, oracle=params, distil=how))
    curves = DistilCurve.validate(found["distil_curves"].collect())
    assert len(curves) == 2 * 3 * 11 == curves["golden"].null_count()
    given = {name: found[name] for name in ("distil_curves", "distil_epochs", "teacher_storage")}
    reported = outputs(report_hacking(**given, distil=how))
    assert reported["distil_runs"].collect()["verdict"].null_count() == 6
    report = reported["hacking_report"]
    assert not report["oracle"]
    assert report["regimes"]["offline_60"]["golden_end"] is None
    assert "proxy distance" in report["advice"]["text"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"control": "fresh"}, "control 'fresh' is none of the regimes"),
        ({"control": "offline_60"}, "control 'offline_60' is offline"),
        ({"updates": 10, "checkpoints": 15}, "15 checkpoints do not fit into 10 updates"),
        ({"regimes": DISTIL["regimes"] + DISTIL["regimes"][:1]}, "two regimes have one name"),
        ({"regimes": [DISTIL["regimes"][0] | {"name": "../up"}]}, "String should match pattern"),
    ],
)
def test_bad_params_stop_before_work_starts(changed, said):
    with pytest.raises(ValidationError, match=said):
        DistilParams(**DISTIL | changed)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ({"name": "jeffreys", "weight": None, "temperature": 1.0}, "give one to jeffreys and generalised_js alone"),
        ({"name": "forward_kl", "weight": 0.5, "temperature": 1.0}, "give one to jeffreys and generalised_js alone"),
        ({"name": "sft", "weight": None, "temperature": 2.0}, "reads no distribution"),
    ],
)
def test_a_loss_takes_the_settings_that_it_has(loss, said):
    with pytest.raises(ValidationError, match=said):
        DistilParams(**DISTIL | {"regimes": [one | {"loss": loss} for one in DISTIL["regimes"]]})


def test_a_regime_that_needs_more_prompts_than_there_are_is_refused(taught):
    many = [one | {"prompts": 31} for one in DISTIL["regimes"]]
    with pytest.raises(ValueError, match="needs 31 prompts and there are 30"):
        students(taught, regimes=many)
