"""The stages of a distillation, called as the plain functions they are, on models that are made in a second."""

import pytest
from pydantic import ValidationError

from assets.distil import DistilParams, distil_students, report_hacking
from assets.oracle import OracleParams, teach
from pipelines import ROOT
from pipelines.graph import Graph
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
    load = oracle_params().models.family().load
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
