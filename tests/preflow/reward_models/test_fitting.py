"""Both rewards fitted on one table, each pair scored by models that have not seen it."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest

from preflow.generative_reward.model import load_generative_reward
from preflow.lm.reward_head import load_reward_model
from preflow.reward_models.fitting import NotFitted, Settings, fit_reward_models
from preflow.reward_models.schemas import RewardScores
from preflow.world.keyed import JUDGE_OF_KEYS
from tests.preflow.policies.conftest import RECIPE, of, taught, treated

TUNING = replace(RECIPE, max_prompt_tokens=48, max_response_tokens=16, epochs=1.0)
SETTINGS = Settings(
    discriminative=replace(RECIPE, epochs=6.0), judge=JUDGE_OF_KEYS, pretraining=TUNING, tuning=TUNING,
    label_smoothing=0.05, convention="paper", folds=2, seed=0,
)  # fmt: skip


def tables(rows):
    """Labelled pairs, and the same without labels."""
    a = pl.col("chosen_is") == "a"
    sides = {
        "response_a": pl.when(a).then("chosen").otherwise("rejected"),
        "response_b": pl.when(a).then("rejected").otherwise("chosen"),
    }
    return rows, rows.select("prompt", **sides)


@cache
def fitted():
    with TemporaryDirectory() as folder:
        return fit_reward_models(taught(), *tables(of(treated(), "train")), SETTINGS, store=Path(folder))


def test_every_labelled_pair_is_scored_by_models_that_have_not_seen_it():
    made = fitted()
    RewardScores.validate(made.out_of_fold)
    assert made.summary == {"not_fitted": None, "labelled": 60, "judged": 60, "unlabelled": 60}
    assert dict(made.out_of_fold["reward"].value_counts().rows()) == {"discriminative": 60, "generative": 60}
    rows = of(treated(), "train").select("pair_id", "chosen_is")
    found = made.out_of_fold.filter(pl.col("reward") == "discriminative").join(rows, on="pair_id")
    right = (found["probability_a"] > 0.5) == (found["chosen_is"] == "a")
    assert right.mean() > 0.9, "what is learnt holds for pairs that were not seen"


def test_with_all_labels_turned_the_held_out_scores_turn_too(tmp_path):
    """Scores in sample would follow each pair's own label; here half of the labels are turned, at random."""
    rows = of(treated(), "train")
    turned = rows.with_columns(share=pl.Series([0.0, 1.0] * 30))
    made = fit_reward_models(taught(), *tables(turned), SETTINGS, store=tmp_path)
    found = made.out_of_fold.filter(pl.col("reward") == "discriminative").join(turned, on="pair_id")
    chosen = pl.when(pl.col("chosen_is") == "a").then("probability_a").otherwise(1 - pl.col("probability_a"))
    said = found.select(chosen=chosen, label="share").with_columns(
        right=(pl.col("chosen") > 0.5) == (pl.col("label") > 0.5)
    )
    assert 0.25 < said["right"].mean() < 0.75


def test_both_are_saved_and_loaded(tmp_path):
    made = fitted()
    made.discriminative.save_pretrained(tmp_path / "head")
    made.generative.save_pretrained(tmp_path / "judge")
    assert load_reward_model(tmp_path / "head").model.num_labels == 1
    assert load_generative_reward(tmp_path / "judge").judge == JUDGE_OF_KEYS


def test_too_few_pairs_give_a_reason(tmp_path):
    labelled, unlabelled = tables(of(treated(), "train")[:1])
    made = fit_reward_models(taught(), labelled, unlabelled, SETTINGS, store=tmp_path)
    assert made.discriminative == made.generative == NotFitted(made.summary["not_fitted"])
    assert made.out_of_fold.is_empty()
    assert "1 labelled pairs can be read" in made.summary["not_fitted"]
    made.generative.save_pretrained(tmp_path / "nothing")
    with pytest.raises(ValueError, match="names no preflow_judge"):
        load_generative_reward(tmp_path / "nothing")
