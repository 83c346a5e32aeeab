from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from preflow.lm.reference import weights_key
from preflow.policies import training
from preflow.policies.policy import load_policy
from preflow.policies.study import Study, open_study
from preflow.policies.training import examples_of, log_ratios, run_key, train_on
from preflow.treatments.schemas import training_rows
from tests.preflow.policies.conftest import RECIPE, changed, of, turned


class StoppedError(Exception):
    """What ends a training from outside."""


@pytest.fixture
def forwards(policy):
    """The batches that go through the start policy itself; trained copies do not count."""
    seen, start = [], policy.model
    handle = start.register_forward_hook(lambda module, *_: seen.append(1) if module is start else None)
    yield seen
    handle.remove()


@pytest.fixture
def train(rows):
    return training_rows(of(rows, "train"))


def test_a_training_leaves_the_start_policy_as_it_was_and_repeats(study, policy, train, tmp_path):
    before = weights_key(policy.model)
    one = train_on(study, train, seed=0)
    assert weights_key(policy.model) == before == study.weights
    again = train_on(replace(study, folder=tmp_path / "other"), train, seed=0)
    assert weights_key(again.model) == weights_key(one.model) != before
    assert again.history == one.history
    assert weights_key(train_on(study, train, seed=1).model) != weights_key(one.model)


def test_training_raises_what_is_chosen_over_what_is_rejected(study, rows, train):
    held = examples_of(study, of(rows, "test"))
    trained = train_on(study, train, seed=0)
    none = log_ratios(study.policy.model, held, max_batch_tokens=RECIPE.max_batch_tokens)
    learned = log_ratios(trained.model, held, max_batch_tokens=RECIPE.max_batch_tokens)
    assert none.shape == learned.shape == (20, 2)
    assert np.abs(none).max() < 1e-5, "the start policy against itself"
    assert (learned[:, 0] > learned[:, 1]).mean() > 0.8
    assert trained.history[-1]["accuracy"] > 0.8


def test_even_votes_teach_no_preference_and_soft_labels_less_than_hard_ones(study, train):
    rows = {share: train.with_columns(share=pl.lit(share, dtype=pl.Float64)) for share in (None, 0.5, 0.75, 1.0)}
    longer = changed(study, epochs=10.0, beta=1.0)
    models = {share: train_on(longer, given, seed=0).model for share, given in rows.items()}
    examples = examples_of(study, train)
    ratios = {share: log_ratios(model, examples, max_batch_tokens=4096) for share, model in models.items()}
    margin = {share: float((found[:, 0] - found[:, 1]).mean()) for share, found in ratios.items()}
    assert abs(margin[0.5]) < 0.1
    assert margin[0.75] == pytest.approx(np.log(3), abs=0.3), "where s(margin) is the share"
    assert margin[1.0] > 3
    assert weights_key(models[1.0]) == weights_key(models[None])
    assert [example.share for example in examples_of(study, rows[0.75])] == [0.75] * len(train)
    assert {example.share for example in examples} == {None}


def test_short_runs_are_logged_at_every_step_and_longer_ones_at_intervals(study, train):
    short, longer = (train_on(changed(study, epochs=epochs), train, seed=0).history for epochs in (3.0, 10 / 3))
    assert [row["step"] for row in short] == list(range(1, 10))
    assert [row["step"] for row in longer] == [10]


def test_rows_with_an_order_are_trained_on_in_that_order(study, train, monkeypatch):
    seen = []

    def watch(model, examples, objective, *, order, **settings):
        seen.append((order, [example.chosen.ids for example in examples]))
        return real(model, examples, objective, order=order, **settings)

    real = training.train
    monkeypatch.setattr(training, "train", watch)
    places = np.random.default_rng(0).permutation(len(train))
    ordered = training_rows(train.with_columns(order=pl.Series(places, dtype=pl.Int64)))
    runs = [(ordered, 0), (ordered, 1), (train, 0)]
    keys = [weights_key(train_on(study, rows, seed=seed).model) for rows, seed in runs]
    by_place = [example.chosen.ids for example in examples_of(study, train[np.argsort(places).tolist()])]
    assert [order for order, _ in seen] == ["given", "given", "shuffled"]
    assert seen[0][1] == by_place != seen[2][1]
    assert keys[0] == keys[1], "in a fixed order the seed changes nothing"
    assert keys[0] != keys[2]


def test_a_stopped_run_goes_on_and_ends_as_an_undisturbed_one(study, train, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "LOG_STEPS", 1)
    monkeypatch.setattr(training, "CHECKPOINT_STEPS", 2)
    whole = train_on(replace(study, folder=tmp_path / "undisturbed"), train, seed=0, resumable=True)
    assert [row["step"] for row in whole.history] == [1, 2, 3, 4, 5, 6]
    steps = []

    def stop(step, _):
        steps.append(step)
        if step == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_on(study, train, seed=0, resumable=True, probe=stop, probe_steps=range(1, 7))
    resumed = train_on(
        study, train, seed=0, resumable=True, probe=lambda step, _: steps.append(step), probe_steps=range(1, 7)
    )
    assert steps == [1, 2, 3, 4, 5, 5, 6], "the fifth step again, after the checkpoint of the fourth"
    assert weights_key(resumed.model) == weights_key(whole.model)
    assert resumed.history == whole.history
    finished = train_on(
        study, train, seed=0, resumable=True, probe=lambda step, _: steps.append(step), probe_steps=range(7)
    )
    assert len(steps) == 7, "a finished run takes no step"
    assert (weights_key(finished.model), finished.history) == (weights_key(whole.model), whole.history)


def test_a_second_training_needs_no_reference_forward(study, train, forwards):
    train_on(study, train, seed=0)
    first = len(forwards)
    assert first > 0
    fresh = Study(study.policy, study.recipe, study.folder)  # read from disk, as another process would
    train_on(fresh, train, seed=1)
    train_on(changed(fresh, beta=0.5, loss="ipo"), train[::-1], seed=2)
    assert len(forwards) == first


def test_a_run_is_named_after_all_that_decides_it(study, train):
    ordered = train.with_columns(order=pl.int_range(len(train)))
    names = [
        run_key(study, train, 0),
        run_key(study, train, 1),
        run_key(study, train[1:], 0),
        run_key(study, train[::-1], 0),
        run_key(changed(study, beta=0.2), train, 0),
        run_key(study, turned(train), 0),
        run_key(study, ordered, 0),
        run_key(study, train.with_columns(share=0.75), 0),
        run_key(study, train.with_columns(share=0.8), 0),
    ]
    assert run_key(replace(study, folder=study.folder / "elsewhere"), train, 0) == names[0]
    assert len(set(names)) == len(names)


def test_rows_that_cannot_be_encoded_are_counted_with_the_remedy(study, train):
    with pytest.raises(ValueError, match=r"60 of 60 rows cannot be encoded: \{'prompt_over_limit': 60\}; a goal"):
        train_on(changed(study, max_prompt_tokens=3), train, seed=0)


def test_an_opened_study_is_the_same_study(study, policy, train, tmp_path):
    policy.save_pretrained(tmp_path / "start")
    opened = open_study(tmp_path / "start", vars(RECIPE), study.folder, threads=1)
    assert (opened.name, opened.recipe) == (study.name, RECIPE)
    assert changed(study, beta=0.2).name != study.name
    assert weights_key(load_policy(tmp_path / "start", chat_template=None).model) == study.weights
    assert weights_key(train_on(opened, train, seed=0).model) == weights_key(train_on(study, train, seed=0).model)
