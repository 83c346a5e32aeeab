from dataclasses import replace

import polars as pl
import pytest
import torch

from preflow.distil.divergences import Loss
from preflow.distil.early_stopping import EarlyStop, replayed
from preflow.distil.ngram import Language, NGram
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.states import held_out_states
from preflow.distil.supervised import sft
from preflow.distil.training import HeldOut, distil
from tests.preflow.distil.conftest import TINY, drawn, tiny

OFFLINE = Regime(name="offline", prompts=20, generations=2, updates=12, online=False, student_share=0.0)
RECIPE = Recipe(batch_size=16, lr=1e-2, checkpoints=4)
LONG = Language(vocabulary=20, length=8, order=3, prompt_size=3)


def held_out(teacher, oracle=None):
    generators = (torch.Generator().manual_seed(3) for _ in range(2))
    proxy, golden = (
        one and held_out_states(one, drawn(30, 1), generator=next(generators)) for one in (teacher, oracle)
    )
    return HeldOut(proxy, golden)


def run(student, regime=OFFLINE, recipe=RECIPE, *, teacher=None, monitor=None, seed=0, prompts=None):
    teacher = teacher or tiny(0)
    given = drawn(20) if prompts is None else prompts
    return distil(student, teacher, given, regime, recipe, held_out(teacher, tiny(1)), seed=seed, monitor=monitor)


class Spy(NGram):
    """A teacher that remembers what it was asked and what it said."""

    def sample(self, prompts, generator):
        responses = super().sample(prompts, generator)
        self.said.append((prompts.clone(), responses))
        return responses


def spy(seed):
    model = Spy(LONG, width=6, embedding=5, seed=seed)
    model.said = []
    return model.requires_grad_(requires_grad=False)


@pytest.mark.claim("hack-11")
@pytest.mark.parametrize("student_share", [0.0, 1.0])
def test_online_runs_regenerate_and_offline_runs_do_not(student_share, record_claim):
    teacher, student = spy(0), spy(1)
    states = held_out_states(teacher, drawn(30, 1), generator=torch.Generator().manual_seed(3))
    online = replace(OFFLINE, name="online", online=True, student_share=student_share)
    found = {}
    for regime in (replace(OFFLINE, student_share=student_share), online):
        teacher.said.clear()
        run = distil(student, teacher, drawn(20), regime, RECIPE, HeldOut(states, None), seed=0)
        said = run.student.said if student_share else teacher.said
        found[regime.name] = run.epochs
        assert len(said) == len(run.epochs)
        assert all(torch.equal(prompts, said[0][0]) for prompts, _ in said)
    assert found["offline"].height == 1, "drawn once, so identical in every pass"
    epochs = found["online"]
    assert epochs.height == 4, "12 updates of 3 batches a pass"
    assert epochs["responses"].n_unique() == 4
    least = float(epochs["new"].min())
    assert least > 0.95
    who = "student" if student_share else "teacher"
    record_claim(
        f"online {who} data: at least {least:.0%} new responses a pass, the prompts the same; offline drawn once"
    )


def test_a_run_repeats_to_the_same_numbers_and_leaves_its_start_alone(student):
    before = {name: value.clone() for name, value in student.state_dict().items()}
    online = replace(OFFLINE, online=True, student_share=0.5)
    one, again, other = run(student, online), run(student, online), run(student, online, seed=1)
    assert one.curve.equals(again.curve)
    assert one.epochs.equals(again.epochs)
    assert all(torch.equal(*pair) for pair in zip(one.student.parameters(), again.student.parameters(), strict=True))
    assert one.curve["proxy"][-1] != other.curve["proxy"][-1]
    assert all(torch.equal(value, before[name]) for name, value in student.state_dict().items())


def test_checkpoints_are_where_they_should_be_and_the_first_is_the_start(student):
    curve = run(student).curve
    assert curve["update"].to_list() == [0, 3, 6, 9, 12]
    assert curve["proxy"][0] == pytest.approx(float(held_out(tiny(0)).proxy.distances(student).double().mean()))
    assert curve["proxy"][-1] < curve["proxy"][0]


def test_train_proxy_is_that_of_the_updates_since_the_last_checkpoint(student):
    """With one batch a pass and a rate of almost 0, every update sees the start's distance on all responses."""
    recipe = replace(RECIPE, batch_size=40, lr=1e-12)
    curve = run(student, recipe=recipe).curve
    assert curve["train_proxy"].to_list() == pytest.approx([curve["train_proxy"][0]] * 5, rel=1e-5)


@pytest.mark.parametrize(
    "loss",
    [
        Loss(name="forward_kl"), Loss(name="reverse_kl"), Loss(name="jeffreys", weight=0.5),
        Loss(name="generalised_js", weight=0.5), Loss(name="sft"), Loss(name="forward_kl", temperature=2.0),
    ],
    ids=lambda loss: f"{loss.name}-{loss.temperature:g}",
)  # fmt: skip
def test_every_loss_brings_the_student_to_its_teacher(student, loss):
    regime = Regime(name="x", prompts=200, generations=1, updates=150, online=True, student_share=0.0, loss=loss)
    curve = run(student, regime, replace(RECIPE, batch_size=100), prompts=drawn(200)).curve
    assert curve["proxy"][-1] < 0.75 * curve["proxy"][0]


def test_a_monitor_ends_a_run_and_its_curve(student):
    class AtSix:
        def update(self, step, train_proxy, validation_proxy):
            assert train_proxy > 0 < validation_proxy
            return step >= 6

    stopped, whole = run(student, monitor=AtSix()), run(student)
    assert stopped.stopped == 6
    assert whole.stopped is None
    assert stopped.curve.equals(whole.curve.head(3)), "up to there it is the run without the monitor"


def test_an_early_stop_in_the_loop_stops_where_its_replay_does(student):
    regime, recipe = replace(OFFLINE, prompts=5, updates=300), replace(RECIPE, checkpoints=20)
    whole = run(student, regime, recipe)
    stop = EarlyStop(ratio_below=0.9, slope_share=0.5)
    stopped = run(student, regime, recipe, monitor=stop)
    assert stopped.stopped == stop.stopped_at == replayed(whole.curve, EarlyStop(ratio_below=0.9, slope_share=0.5))
    assert stop.alarmed_at <= stop.stopped_at < 300
    assert stopped.curve.equals(whole.curve.filter(pl.col("update") <= stop.stopped_at))


def test_truncated_targets_are_trained_on(student):
    exact, truncated = (run(student, recipe=replace(RECIPE, top_k=k)).curve for k in (None, 2))
    assert truncated["proxy"][0] == exact["proxy"][0], "what is measured is never truncated"
    assert truncated["proxy"][-1] != exact["proxy"][-1]


def test_without_an_oracle_there_is_no_golden_distance(student):
    teacher = tiny(0)
    found = distil(student, teacher, drawn(20), OFFLINE, RECIPE, held_out(teacher), seed=0)
    assert found.curve["golden"].null_count() == 5
    assert found.curve["proxy"].null_count() == 0


def test_supervised_training_takes_its_model_towards_the_data():
    oracle, prompts = tiny(0), drawn(300)
    responses = oracle.sample(prompts, torch.Generator().manual_seed(0))
    start = NGram(TINY, width=8, embedding=5, seed=4)
    states = held_out_states(oracle, drawn(200, 1), generator=torch.Generator().manual_seed(0))
    trained = sft(start, prompts, responses, epochs=15, batch_size=50, lr=1e-2, seed=0)
    assert float(states.distances(trained).mean()) < 0.7 * float(states.distances(start).mean())


def test_what_cannot_be_run_is_refused(student):
    with pytest.raises(ValueError, match="needs 21 prompts and there are 20"):
        run(student, replace(OFFLINE, prompts=21))
    with pytest.raises(ValueError, match="13 checkpoints do not fit into 12 updates"):
        run(student, recipe=replace(RECIPE, checkpoints=13))
    with pytest.raises(ValueError, match="give at least 1"):
        replace(OFFLINE, generations=0)
    with pytest.raises(ValueError, match="give 0 to 1"):
        replace(OFFLINE, student_share=1.5)


def test_passes_and_teacher_responses_by_hand():
    assert OFFLINE.passes(16) == 4.0
    assert OFFLINE.teacher_responses(16) == 40
    assert replace(OFFLINE, online=True, updates=13).teacher_responses(16) == 200
