from dataclasses import replace

import polars as pl
import pytest

from preflow.lm.reference import weights_key
from preflow.policies import grid
from preflow.policies.grid import Questions, SavedPolicies, run_grid
from preflow.policies.measured import Sampling, held_out_prompts, responses
from preflow.policies.policy import load_policy
from preflow.policies.schemas import PolicyLogprobs, PolicyResponses
from preflow.policies.study import Study
from preflow.policies.training import train_on
from preflow.treatments.reward_augmented import augment
from preflow.treatments.schemas import TreatedPairs, training_rows
from preflow.treatments.scores import source_scores
from tests.preflow.policies.conftest import RECIPE, TEXT, changed, of, preferences, treated

NAMES, SEEDS, GOALS = ("untreated", "reward_augmented"), (1, 2), [2.0, 9.0]
GRID = {"seeds": SEEDS, "label_smoothing": 0.2}
SAMPLES, PROMPTS = 2, 5


@pytest.fixture(scope="module")
def derived():
    """40 pairs, 24 of them to train on, as they are and reward-augmented."""
    plain = treated(preferences(40))
    train = of(plain, "train")
    augmented = augment(train, source_scores(train, attribute="score"), text=TEXT, ties="drop")
    return plain, TreatedPairs.cast(pl.concat([train, augmented]))


@pytest.fixture(scope="module")
def questions(derived):
    plain, _ = derived
    return Questions(
        prompts=held_out_prompts(plain.filter(pl.col("split") != "train"), most=PROMPTS),
        pairs=plain,
        goals=GOALS,
        text=TEXT,
        sampling=Sampling(samples=SAMPLES, temperature=1.0, max_prompt_tokens=24, max_new_tokens=6, batch_size=64),
    )


@pytest.fixture(scope="module")
def outcome(policy, derived, questions, tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    study = Study(policy, RECIPE, folder / "study")
    return study, run_grid(study, derived[1], questions, **GRID, scratch=folder / "scratch")


@pytest.fixture
def label_smoothing(monkeypatch):
    """(smoothing, order of the rows' treatments) of each training from now on."""
    seen = []

    def watch(study, rows, **settings):
        seen.append((rows["treatment"][0], study.recipe.label_smoothing, settings["resumable"]))
        return train_on(study, rows, **settings)

    monkeypatch.setattr(grid, "train_on", watch)
    return seen


def test_every_policy_answers_all_that_it_is_to_be_asked(outcome):
    found = outcome[1].responses
    PolicyResponses.validate(found)
    # validation and test without a goal; controls are asked for goals on test alone
    asked = {("validation", None), ("test", None)}
    as_controls = asked | {("test", goal) for goal in GOALS}
    by_goal = {(split, goal) for split in ("validation", "test") for goal in GOALS}
    for seed in SEEDS:
        for name, expected in {"start": as_controls, "untreated": as_controls, "reward_augmented": by_goal}.items():
            rows = found.filter(treatment=name, seed=seed)
            assert set(rows.select("split", "goal").iter_rows()) == expected, name
            counts = rows.group_by("split", "goal").len()["len"].unique().to_list()
            assert counts == [PROMPTS * SAMPLES]
    assert len(found) == 2 * (4 + 4 + 4) * PROMPTS * SAMPLES
    assert found.n_unique(["treatment", "seed", "split", "prompt_group", "goal", "sample"]) == len(found)


def test_every_trained_policy_is_measured_on_every_pair(outcome, derived):
    found = outcome[1].logprobs
    PolicyLogprobs.validate(found)
    expected = {(name, seed, pair_id) for name in NAMES for seed in SEEDS for pair_id in derived[0]["pair_id"]}
    assert set(found.select("treatment", "seed", "pair_id").iter_rows()) == expected
    assert len(found) == len(expected)
    assert set(found["split"]) == {"train", "validation", "test"}
    references = found.group_by("pair_id").agg(pl.col("ref_logp_chosen", "ref_logp_rejected").n_unique())
    assert references.select(pl.col("ref_logp_chosen", "ref_logp_rejected").max()).row(0) == (1, 1)


def test_the_runs_are_told(outcome):
    runs = outcome[1].runs
    told = [(run["treatment"], run["seed"], run["rows"], run["step"]) for run in runs]
    # two epochs of 24 and of 48 rows in batches of 20
    by_name = [("untreated", 24, 2), ("reward_augmented", 48, 5)]
    assert told == [(name, seed, rows, step) for seed in SEEDS for name, rows, step in by_name]
    assert all(set(run) == {"treatment", "seed", "rows", "step", "loss", "margin", "accuracy"} for run in runs)


def test_saved_policies_are_those_that_answered(outcome, questions, tmp_path):
    study, made = outcome
    made.policies.save_pretrained(tmp_path / "policies")
    found = sorted(path.relative_to(tmp_path / "policies").as_posix() for path in (tmp_path / "policies").glob("*/*"))
    assert found == [f"{name}/seed-{seed}" for name in sorted(NAMES) for seed in SEEDS]
    keys = {study.weights}
    for place in found:
        name, seed = place.split("/seed-")
        loaded = load_policy(tmp_path / "policies" / place, chat_template=None)
        keys.add(weights_key(loaded.model))
        goals = GOALS if name == "reward_augmented" else [None]
        again = responses(
            loaded.model,
            loaded.tokenizer,
            questions.prompts,
            goals=goals,
            text=TEXT,
            sampling=questions.sampling,
            seed=int(seed),
        )
        given = made.responses.filter(pl.col("goal").is_in(goals, nulls_equal=True), treatment=name, seed=int(seed))
        on = ["prompt_group", "goal", "sample"]
        assert len(given) == len(again) > 0
        assert given.sort(on)["response"].equals(again.sort(on)["response"])
    assert len(keys) == 5, "four trained policies, none like another or the start policy"


def test_checkpoints_are_removed_and_references_stay(outcome):
    study, _ = outcome
    assert not study.checkpoints.exists()
    assert len(list((study.folder / "logprobs").glob("*.safetensors"))) > 0


def test_the_same_grid_gives_the_same_bytes(outcome, derived, questions, tmp_path):
    study, made = outcome
    again = run_grid(
        replace(study, folder=tmp_path / "study"),
        derived[1],
        questions,
        **GRID | {"seeds": [2]},
        scratch=tmp_path / "s",
    )
    assert again.responses.serialize() == made.responses.filter(seed=2).rechunk().serialize()
    assert again.logprobs.equals(made.logprobs.filter(seed=2))
    assert again.runs == [run for run in made.runs if run["seed"] == 2]
    for name in NAMES:
        folders = [run.policies.folder / name / "seed-2" for run in (made, again)]
        files = [folder / "model.safetensors" for folder in folders]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_the_same_policy_says_the_same_under_another_name(study, derived, questions, tmp_path):
    plain = training_rows(of(derived[0], "train"))
    twice = pl.concat([plain, plain.with_columns(treatment=pl.lit("random_share"))])
    made = run_grid(study, twice, questions, **GRID | {"seeds": [1]}, scratch=tmp_path / "s")
    one, other = (
        made.responses.filter(pl.col("goal").is_null(), treatment=name).drop("treatment")
        for name in ("untreated", "random_share")
    )
    assert one.equals(other)
    assert len(one) == 2 * PROMPTS * SAMPLES
    assert not one["response"].equals(made.responses.filter(pl.col("goal").is_null(), treatment="start")["response"])


def test_only_label_smoothed_is_trained_with_smoothing(study, derived, questions, tmp_path, label_smoothing):
    plain = of(derived[0], "train")
    both = pl.concat([plain, plain.with_columns(treatment=pl.lit("label_smoothed"))])
    made = run_grid(study, both, questions, **GRID | {"seeds": [1]}, scratch=tmp_path / "s")
    assert label_smoothing == [("untreated", 0.0, True), ("label_smoothed", 0.2, True)]
    losses = {run["treatment"]: run["loss"] for run in made.runs}
    assert losses["untreated"] != losses["label_smoothed"]


def test_a_loss_without_smoothing_compares_all_else(study, derived, questions, tmp_path, label_smoothing):
    plain = of(derived[0], "train")
    made = run_grid(changed(study, loss="ipo"), plain, questions, **GRID | {"seeds": [1]}, scratch=tmp_path / "s")
    assert label_smoothing == [("untreated", 0.0, True)]
    assert len(made.runs) == 1
    smoothed = plain.with_columns(treatment=pl.lit("label_smoothed"))
    with pytest.raises(ValueError, match="ipo takes no label smoothing"):
        run_grid(changed(study, loss="ipo"), smoothed, questions, **GRID, scratch=tmp_path / "t")


def test_a_treatment_without_kept_rows_is_left_out_and_nothing_at_all_trains_nothing(
    study, derived, questions, tmp_path, label_smoothing
):
    none = of(derived[0], "train").with_columns(kept=pl.lit(value=False), treatment=pl.lit("gold_filtered"))
    for rows in (none, none.clear()):
        (tmp_path / "s").mkdir(exist_ok=True)
        made = run_grid(study, rows, questions, **GRID, scratch=tmp_path / "s")
        assert made.responses.equals(PolicyResponses.create_empty())
        assert made.logprobs.equals(PolicyLogprobs.create_empty())
        assert made.runs == label_smoothing == []
    SavedPolicies(tmp_path / "s").save_pretrained(tmp_path / "policies")
    assert list((tmp_path / "policies").iterdir()) == []
