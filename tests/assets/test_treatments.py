"""From the start policy to the comparison of treatments: the assets as plain functions on small tables."""

from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import polars as pl
import pytest

from assets.augmentation import AugmentationParams, ScaleParams, reward_augmented_pairs
from assets.comparison import ComparisonParams, compare, judge
from assets.difficulty import DifficultyParams, score_difficulty, select
from assets.policy import PolicyParams, start_policy
from assets.reward import RewardParams
from assets.reward_audit import RewardAuditParams, audit_rewards, response_rewrites
from assets.reward_benchmark import RewardBenchmarkParams, measure_rewards
from assets.reward_models import (
    GenerativeParams,
    RewardModelsParams,
    TuningParams,
    WordingParams,
    fit_reward_models,
    reward_scores,
)
from assets.training import RecipeParams, TrainingParams, read_pairs
from assets.treatments import TreatmentsParams, treated_pairs, treatment_grid
from preflow.comparison.schemas import EndpointVerdicts, JudgedResponses
from preflow.lm.reference import weights_key
from preflow.policies.policy import Policy
from preflow.policies.schemas import PolicyLogprobs, PolicyResponses
from preflow.reward.baseline import BradleyTerryReward
from preflow.reward.features import FEATURES
from preflow.reward.schemas import RewardPredictions
from preflow.reward_audit.schemas import RewardedAttributes, Rewrites
from preflow.reward_models.schemas import RewardScores
from preflow.treatments.schemas import DifficultyScores, HeldOutLosses, TreatedPairs
from tests.preflow.policies.conftest import RECIPE, preferences, taught
from tests.preflow.treatments.conftest import frame, pair

SCHEMAS = {
    "untreated_pairs": TreatedPairs,
    "out_of_fold_scores": RewardScores,
    "reward_scores": RewardScores,
    "response_rewrites": Rewrites,
    "rewarded_attributes": RewardedAttributes,
    "held_out_losses": HeldOutLosses,
    "difficulty_scores": DifficultyScores,
    "selected_pairs": TreatedPairs,
    "reward_augmented_pairs": TreatedPairs,
    "treated_pairs": TreatedPairs,
    "policy_responses": PolicyResponses,
    "policy_logprobs": PolicyLogprobs,
    "judged_responses": JudgedResponses,
    "endpoint_verdicts": EndpointVerdicts,
}
DIFFICULTY = DifficultyParams(
    seeds=[1], checkpoints=1, learned_margin=0.0, shares=[0.5], share_seeds=[1], curriculum=False, bootstrap=2000
)
AUGMENTATION = AugmentationParams(
    attributes={"score": "source"},
    scale=ScaleParams(low=0.0, high=10.0, decimals=0),
    instruction="{goals}",
    scale_words="",
    place="system",
    ties="drop",
)
TUNING = TuningParams(learning_rate=2e-3, epochs=2.0)
REWARD_MODELS = {
    "used": ["baseline", "discriminative", "generative"],
    "discriminative": TUNING,
    "generative": GenerativeParams(
        wording=WordingParams(
            instruction="",
            before_prompt="",
            before_first="",
            before_second="",
            cue=":",
            separator=" ",
            verdicts=["a", "b"],
        ),
        max_tokens=48,
        pretraining=TUNING,
        tuning=TUNING,
        label_smoothing=0.05,
        convention="paper",
    ),
    "folds": 2,
    "seed": 0,
}
TREATMENTS = TreatmentsParams(
    compared=["untreated", "reward_augmented", "gold_filtered", "pluralistic"],
    label_smoothing=0.2,
    seeds=[1],
    prompts=4,
    samples=1,
    temperature=1.0,
    sampling_batch=64,
    goals=[2.0, 9.0],
    seed=0,
)


def outputs(stage: Any) -> dict[str, Any]:
    """What a stage yields, by name; what is saved must be saved while the stage still has its scratch folder."""
    return {output.output_name: output.value for output in stage}


class Chain:
    """Runs the stages in order, each on what the ones before it gave."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        self.saved: dict[str, Path] = {}
        self.training = TrainingParams(
            recipe=RecipeParams(**vars(RECIPE)),
            max_pairs=100,
            min_pairs=10,
            store=str(folder / "store"),
            threads=1,
            seed=0,
            **changes,
        )
        self.reward = RewardParams(
            encoder="package:all-MiniLM-L6-v2",
            max_tokens=32,
            batch_size=8,
            threads=1,
            store=str(folder / "embeddings"),
            l2_grid=[0.1],
            folds=2,
            bootstrap=2000,
            bins=5,
            seed=0,
        )
        self.reward_models = RewardModelsParams(**REWARD_MODELS, store=str(folder / "rewards"))
        self.comparison = ComparisonParams(
            reward="generative",
            endpoint=None,
            answers=str(folder / "answers.sqlite"),
            good_score=7.0,
            bootstrap=2000,
            seed=0,
        )

    def run(self, pairs: pl.DataFrame) -> dict[str, Any]:
        start, model = self.folder / "start", self.folder / "reward"
        taught().save_pretrained(start)
        random_reward_model(model)
        training = {"start_policy": start, "training": self.training}
        made: dict[str, Any] = {}
        made["untreated_pairs"], made["readable"] = read_pairs(pairs.lazy(), **training)
        untreated = {"untreated_pairs": made["untreated_pairs"]}
        made |= outputs(score_difficulty(**untreated, **training, difficulty=DIFFICULTY))
        scores = {"difficulty_scores": made["difficulty_scores"]}
        made |= outputs(select(**untreated, **scores, **training, difficulty=DIFFICULTY))
        made |= self.scored(pairs, untreated | training, model)
        made |= self.audited(pairs, made, {"baseline_reward_model": model, **self.saved})
        made["reward_augmented_pairs"] = reward_augmented_pairs(
            **untreated, reward_scores=made["reward_scores"], **training, augmentation=AUGMENTATION
        )
        parts = {name: made[name] for name in ("selected_pairs", "reward_augmented_pairs", "selection")}
        soft = {"treatment": pl.lit("pluralistic"), "share": pl.lit(0.75)}
        parts["pluralistic_pairs"] = made["untreated_pairs"].with_columns(**soft)
        made["treated_pairs"] = treated_pairs(**untreated, **parts, **scores, treatments=TREATMENTS)
        grid = treatment_grid(
            made["treated_pairs"], **untreated, **training, augmentation=AUGMENTATION, treatments=TREATMENTS
        )
        for output in grid:
            if output.output_name == "trained_policies":
                output.value.save_pretrained(self.folder / "policies")
            made[output.output_name] = output.value
        models = {"baseline_reward_model": model, **self.saved}
        how = {"reward": self.reward, "training": self.training, "reward_models": self.reward_models}
        made |= outputs(judge(made["policy_responses"], **models, **how, comparison=self.comparison))
        judged = {name: made[name] for name in ("judged_responses", "endpoint_verdicts", "policy_logprobs", "readable")}
        return made | outputs(compare(**judged, comparison=self.comparison))

    def scored(self, pairs: pl.DataFrame, given: dict[str, Any], model: Path) -> dict[str, Any]:
        """What `fit_reward_models` and `reward_scores` make."""
        a = pl.col("chosen_is") == "a"
        sides = {
            "response_a": pl.when(a).then("chosen").otherwise("rejected"),
            "response_b": pl.when(a).then("rejected").otherwise("chosen"),
        }
        tables = {"preference_pairs": pairs.lazy(), "comparisons": pairs.lazy().with_columns(**sides)}
        how = {"reward_models": self.reward_models}
        made: dict[str, Any] = {}
        for output in fit_reward_models(**given, **tables, splits=pairs.lazy(), **how):
            made[output.output_name] = output.value
            if output.output_name.endswith("_model"):
                self.saved[output.output_name] = self.folder / output.output_name
                output.value.save_pretrained(self.saved[output.output_name])
        made["reward_scores"] = reward_scores(
            **tables, reward_predictions=RewardPredictions.create_empty().lazy(),
            out_of_fold_scores=made["out_of_fold_scores"], baseline_reward_model=model, **self.saved,
            reward=self.reward, training=self.training, **how,
        )  # fmt: skip
        return made

    def audited(self, pairs: pl.DataFrame, made: dict[str, Any], models: dict[str, Path]) -> dict[str, Any]:
        """What the benchmark and the audit of the rewards make."""
        (self.folder / "benchmarks").mkdir()
        (self.folder / "rewrites.jsonl").touch()
        benchmark = RewardBenchmarkParams(
            rewards=["baseline", "discriminative", "generative"], path=str(self.folder / "benchmarks"),
            bootstrap=2000, bins=5, seed=0,
        )  # fmt: skip
        audit = RewardAuditParams(
            rewards=["baseline", "generative"], attributes=["exclamation", "vowel_first"], responses=12, endpoint=None,
            answers=str(self.folder / "answers.sqlite"), rewrites_file=str(self.folder / "rewrites.jsonl"), seed=0,
        )  # fmt: skip
        how = {"reward": self.reward, "training": self.training, "reward_models": self.reward_models}
        found = outputs(
            measure_rewards(made["reward_scores"], pairs.lazy(), **models, **how, reward_benchmark=benchmark)
        )
        sides = pairs.lazy().with_columns(response_a="chosen", response_b="rejected")
        found["response_rewrites"] = response_rewrites(sides, reward_audit=audit)
        return found | outputs(audit_rewards(found["response_rewrites"], **models, **how, reward_audit=audit))


def random_reward_model(folder: Path) -> None:
    width, rng = 384 + len(FEATURES), np.random.default_rng(0)
    arrays = rng.normal(size=width), np.zeros(width), np.ones(width)
    source = {"encoder": "package:all-MiniLM-L6-v2", "encoder_sha256": "0" * 64}
    BradleyTerryReward(*arrays, l2=0.1, **source).save_pretrained(folder)


def tables(made: dict[str, Any]) -> dict[str, pl.DataFrame]:
    return {name: made[name].collect() for name in SCHEMAS}


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """40 pairs that the policy can read, through all stages."""
    folder = tmp_path_factory.mktemp("studied")
    return folder, Chain(folder).run(preferences(40))


@pytest.fixture(scope="module")
def not_studied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Twelve pairs in words that the policy does not know, through all stages."""
    rows = [
        pair([{"role": "user", "content": f"Why is number {n} odd?"}], "It is not.", "Because.", split=split)
        for n, split in enumerate(["train"] * 8 + ["validation"] * 2 + ["test"] * 2)
    ]
    folder = tmp_path_factory.mktemp("not_studied")
    return folder, Chain(folder).run(frame(rows))


def test_every_stage_gives_what_its_schema_says(studied: tuple[Path, dict[str, Any]]) -> None:
    for name, table in tables(studied[1]).items():
        SCHEMAS[name].validate(table)
        assert len(table) > 0 or name == "endpoint_verdicts", name


def test_the_stages_agree_on_what_was_compared(studied: tuple[Path, dict[str, Any]]) -> None:
    folder, made = studied
    found = tables(made)
    assert made["readable"]["not_studied"] is None
    assert made["reward_benchmark"]["own_pairs"]["pairs"] == 8
    assert set(made["reward_benchmark"]["own_pairs"]["rewards"]) == {"baseline", "discriminative", "generative"}
    effects = made["reward_audit_summary"]
    known = {(row["reward"], row["attribute"]) for row in effects["attributes"]}
    assert known <= {("baseline", "exclamation"), ("baseline", "vowel_first")}
    assert len(known) + len(effects["not_identified"]) == 4
    assert made["ranking"]["pairs"] == found["difficulty_scores"].height == 24
    assert made["selection"]["share"] == 0.5
    assert found["selected_pairs"]["kept"].sum() == 12
    assert set(found["treated_pairs"]["treatment"]) == set(TREATMENTS.compared)
    assert set(found["policy_responses"]["treatment"]) == {"start", *TREATMENTS.compared}
    assert [run["treatment"] for run in made["trainings"]["runs"]] == TREATMENTS.compared
    assert sorted(path.name for path in (folder / "policies").iterdir()) == sorted(TREATMENTS.compared)
    summary = made["policy_comparison"]
    assert summary["judges"] == ["gold", "reward"]
    assert {record["treatment"] for record in summary["policies"]} == {"start", *TREATMENTS.compared}
    assert {record["treatment"] for record in summary["contrasts"]} == {"start", *TREATMENTS.compared[1:]}
    goals = {record["treatment"]: record["goal"] for record in summary["goals"]}
    assert goals.pop("reward_augmented") in TREATMENTS.goals
    assert set(goals.values()) == {None}


def test_pairs_that_cannot_be_read_lead_to_empty_tables_and_a_reason(not_studied: tuple[Path, dict[str, Any]]) -> None:
    folder, made = not_studied
    found = tables(made)
    untreated = found.pop("untreated_pairs")
    TreatedPairs.validate(untreated)
    assert dict(untreated["reason"].value_counts().rows()) == {"unknown_words": 12}
    assert not untreated["kept"].any()
    assert len(found.pop("response_rewrites")) == 24
    assert len(found.pop("rewarded_attributes")) == 4
    assert dict(found.pop("reward_scores")["reward"].value_counts().rows()) == {"baseline": 12}
    assert "0 labelled pairs can be read by the start policy" in made["reward_models_fit"]["not_fitted"]
    assert {name: len(table) for name, table in found.items()} == dict.fromkeys(found, 0)
    assert all(table.schema == SCHEMAS[name].create_empty().schema for name, table in found.items())
    assert (made["ranking"], made["selection"]) == ({"pairs": 0}, {"share": None, "curve": []})
    assert made["trainings"] == {"runs": []}
    assert list((folder / "policies").iterdir()) == []
    reason = made["readable"]["not_studied"]
    assert "can read too few of 12 pairs (unknown_words 12)" in reason
    assert made["policy_comparison"] == {"not_measured": reason}


PLOTS = ["accuracy_by_share", "treatment_differences", "goal_control", "attribute_effects"]


@pytest.mark.parametrize("name", PLOTS)
def test_charts_are_drawn_whether_or_not_there_is_something_to_show(
    studied: tuple[Path, dict[str, Any]], not_studied: tuple[Path, dict[str, Any]], name: str
) -> None:
    from preflow.charts import to_svg

    drawn = [to_svg(made[name]) for _, made in (studied, not_studied)]
    assert all(svg.startswith("<svg") for svg in drawn)
    assert drawn[0] != drawn[1]


def test_the_start_policy_is_a_model_with_its_tokenizer(tmp_path: Path) -> None:
    taught().save_pretrained(tmp_path / "start")
    params = PolicyParams(start=str(tmp_path / "start"), chat_template=None, cache=str(tmp_path), threads=1, seed=0)
    made = start_policy(policy=params)
    assert isinstance(made, dg.Output)
    assert isinstance(made.value, Policy)
    assert weights_key(made.value.model) == weights_key(taught().model)
