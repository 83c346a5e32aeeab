"""What treatments are worth over several worlds: `python -m benchmarks.treatment_study --size tiny --worlds 8`.

Each world has its own policy, prompts, responses, annotators' votes and planted flips; each treatment is trained once
in each. A world is the unit of every test. Results of finished worlds are kept, so a run that was stopped goes on; the
tables of all sizes that were run are written to docs/treatment_study.md.
"""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import polars as pl
import torch
import typer
from scipy.stats import spearmanr
from transformers import PreTrainedModel

from benchmarks.treatment_study_page import page
from preflow.audit.duplicates import contradictions, near_clusters
from preflow.audit.splits import split_by_group
from preflow.audit.votes import summarise_votes
from preflow.ingest.intake import ingest
from preflow.pairs import preference_pairs, verdicts
from preflow.policies.held_out import held_out_losses
from preflow.policies.measured import Sampling, held_out_prompts, pair_logprobs, responses
from preflow.policies.policy import Policy
from preflow.policies.readable import untreated_pairs
from preflow.policies.recipe import Recipe
from preflow.policies.study import Study
from preflow.policies.training import examples_of, log_ratios, train_on
from preflow.treatments.difficulty import difficulty_scores, seed_agreement
from preflow.treatments.goals import GoalText
from preflow.treatments.reward_augmented import GOAL_OF_REJECTED, augment
from preflow.treatments.schemas import training_rows
from preflow.treatments.scores import source_scores
from preflow.treatments.selection import select_easiest, select_hardest, select_random
from preflow.treatments.variants import variants
from preflow.world.feedback import WorldFeedback
from preflow.world.gold import gold_rewards
from preflow.world.recipe import DEFAULT_WORLD, feedback_on, taught_policies
from preflow.world.tokenizer import world_tokenizer

RESULTS = Path(".cache/treatment_study")
PAGE = Path("docs/treatment_study.md")
SHARES = (0.35, 0.5, 0.65, 0.8, 1.0)
GOALS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
GOOD = 7.0  # score from which on a rejected response is a good one
OPTIMUM = 8.0  # gold reward from which on a response is taken out of the world that lacks the optimum
TEXT = GoalText(instruction="{goals}", scale="", attributes=("score",), place="system")
RECIPE = Recipe(
    loss="dpo",
    beta=0.3,
    label_smoothing=0.0,
    target_margin=0.0,
    learning_rate=6e-4,
    schedule="cosine",
    warmup_share=0.1,
    epochs=5,
    batch_size=64,
    micro_batch_size=64,
    lora_rank=None,
    bf16=False,
    max_prompt_tokens=56,
    max_response_tokens=24,
    max_batch_tokens=8192,
)
SAMPLING = Sampling(samples=2, temperature=1.0, max_prompt_tokens=56, max_new_tokens=24, batch_size=256)
PROMPTS = 2_500
TEST_PROMPTS, VALIDATION_PROMPTS = 300, 150
NEW_PROMPTS, NEW_SEED = 4_000, 1_000

Record = dict[str, Any]


def refined(feedback: WorldFeedback, *, seed: int) -> pl.DataFrame:
    """`PreferencePairs` of the world's file of feedback, made as the pipeline makes them."""
    with TemporaryDirectory() as folder:
        feedback.save_to_disk(Path(folder) / "in")
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        taken = ingest(
            Path(folder) / "in", formats={}, hub=[], max_field_chars=100_000, min_score_margin=0.5, scratch=scratch
        )
        comparisons, votes = taken.comparisons.collect().lazy(), taken.votes.collect().lazy()
    clusters = near_clusters(comparisons, threshold=0.8, num_perm=128, seed=seed).lazy()
    splits = split_by_group(comparisons, clusters, validation_fraction=0.1, test_fraction=0.2, seed=seed).lazy()
    summary = summarise_votes(comparisons, votes, worker_model="dawid_skene", iterations=100, seed=seed)[0].lazy()
    decided = verdicts(comparisons, summary, label="majority", min_agreement=0.0).lazy()
    doubts = contradictions(comparisons, votes).lazy()
    truncated = pl.LazyFrame({"pair_id": []}, schema={"pair_id": pl.String})
    return preference_pairs(comparisons, decided, summary, splits, doubts, truncated)


class World:
    """One world: a study of its policy, its pairs by split, and how policies are measured in it."""

    def __init__(self, size: str, seed: int, folder: Path) -> None:
        recipe = replace(DEFAULT_WORLD, size=size, prompts=PROMPTS)
        policies = taught_policies(recipe, seed=seed)
        self.seed, self.recipe, self.policies = seed, recipe, policies
        self.study = Study(Policy(policies.late, world_tokenizer()), RECIPE, folder)
        pairs = refined(feedback_on(policies, recipe, seed=seed), seed=seed)
        self.pairs = untreated_pairs(
            pairs, self.study.policy.tokenizer, RECIPE, max_pairs=len(pairs), min_pairs=100, seed=seed
        )
        kept = self.pairs.filter("kept")
        self.train, self.validation, self.test = (
            kept.filter(pl.col("split") == name) for name in ("train", "validation", "test")
        )
        self.test_prompts = held_out_prompts(self.test, most=TEST_PROMPTS)
        self.validation_prompts = held_out_prompts(self.validation, most=VALIDATION_PROMPTS)
        sides = (gold_rewards(self.test["prompt"], self.test[side]).to_numpy() for side in ("chosen", "rejected"))
        self.lead = np.subtract(*sides)

    def trained(self, rows: pl.DataFrame) -> PreTrainedModel:
        """A policy trained on the kept rows."""
        return train_on(self.study, training_rows(rows), seed=self.seed).model

    def accuracy(self, model: PreTrainedModel) -> float:
        """Share of test pairs with a better response by gold that the implicit reward orders right."""
        decided = self.lead != 0
        return float(np.mean((self._margins(model, self.test) * self.lead)[decided] > 0))

    def validation_accuracy(self, model: PreTrainedModel) -> float:
        """Share of validation pairs that the implicit reward orders as their labels, wrong ones included, say."""
        return float(np.mean(self._margins(model, self.validation) > 0))

    def _margins(self, model: PreTrainedModel, rows: pl.DataFrame) -> np.ndarray:
        ratios = log_ratios(model, examples_of(self.study, rows), max_batch_tokens=RECIPE.max_batch_tokens)
        return ratios[:, 0] - ratios[:, 1]

    def reward(self, model: PreTrainedModel, goal: float | None, *, validation: bool = False) -> float:
        """Mean gold reward of sampled responses."""
        prompts = self.validation_prompts if validation else self.test_prompts
        tokenizer = self.study.policy.tokenizer
        said = responses(model, tokenizer, prompts, goals=[goal], text=TEXT, sampling=SAMPLING, seed=self.seed)
        return float(np.mean(gold_rewards(said["prompt"], said["response"]).to_numpy()))

    def curve(self, model: PreTrainedModel) -> Record:
        """Goal control on test prompts, and the reward at the goal picked on validation prompts."""
        means = [self.reward(model, goal) for goal in GOALS]
        goal = max(GOALS, key=lambda asked: self.reward(model, asked, validation=True))
        return {
            "means": means,
            "spearman": float(spearmanr(GOALS, means).statistic),
            "range": means[-1] - means[0],
            "goal": goal,
            "reward": means[GOALS.index(goal)],
        }

    def drift(self, model: PreTrainedModel) -> float:
        """Mean log-probability that good rejected responses gained, prompts without a goal."""
        good = self.train.filter(pl.col("score_rejected") >= GOOD)
        found = pair_logprobs(model, self.study, good)
        return float((found["logp_rejected"] - found["ref_logp_rejected"]).to_numpy().mean())


def measured(size: str, seed: int, folder: Path) -> Record:
    """All figures of one world."""
    world = World(size, seed, folder)
    start, plain = world.study.policy.model, world.trained(world.train)
    record: Record = {
        "train_pairs": len(world.train),
        "accuracy": {"untreated": world.accuracy(plain)},
        "reward": {"start": world.reward(start, None), "untreated": world.reward(plain, None)},
        "drift": {"untreated": world.drift(plain)},
        "curve": {"start": world.curve(start), "untreated": world.curve(plain)},
    }
    scores = _selection(world, record)
    _controls(world, scores, record)
    _augmentation(world, record)
    _without_optimum(world, record)
    return record


def on_new_pairs(size: str, seed: int, folder: Path) -> Record:
    """Accuracy on many clean pairs of prompts that the world's pairs do not have, by what was trained on."""
    world = World(size, seed, folder)
    scores = _scores(world)[0]
    pairs, lead = _new_pairs(world)
    examples = examples_of(world.study, pairs)

    def accuracy(rows: pl.DataFrame) -> float:
        ratios = log_ratios(world.trained(rows), examples, max_batch_tokens=RECIPE.max_batch_tokens)
        return float(np.mean((ratios[:, 0] - ratios[:, 1]) * lead > 0))

    easiest = {
        f"easiest {share:g}": select_easiest(world.train, scores, share=share, curriculum=False)
        for share in SHARES[1:-1]
    }
    trained_on = {"untreated": world.train, **easiest, "random half": select_random(world.train, share=0.5, seed=seed)}
    return {"pairs": len(pairs), "accuracy": {name: accuracy(rows) for name, rows in trained_on.items()}}


def _new_pairs(world: World) -> tuple[pl.DataFrame, np.ndarray]:
    """Pairs of new prompts with a better response by gold (prompt, chosen, rejected), and the lead of chosen, [n]."""
    feedback = feedback_on(world.policies, replace(world.recipe, prompts=NEW_PROMPTS), seed=NEW_SEED + world.seed)
    known = set(world.pairs["prompt"].list.last().struct.field("content"))
    rows = pl.DataFrame(
        [
            {"prompt": row["prompt"], "chosen": row["response_a"], "rejected": row["response_b"]}
            for row in feedback.rows
            if row["prompt"][-1]["content"] not in known
        ]
    )
    lead = (gold_rewards(rows["prompt"], rows["chosen"]) - gold_rewards(rows["prompt"], rows["rejected"])).to_numpy()
    return rows.filter(lead != 0), lead[lead != 0]


def _scores(world: World) -> tuple[pl.DataFrame, float]:
    """`DifficultyScores` of the train pairs, and how far the seeds agree."""
    losses = held_out_losses(world.study, world.train, seeds=[1, 2, 3], checkpoints=2)
    return difficulty_scores(losses, scored_by=world.study.name, learned_margin=0.0), seed_agreement(losses)


def _selection(world: World, record: Record) -> pl.DataFrame:
    scores, record["seed_agreement"] = _scores(world)
    by_share = {}
    for share in SHARES:
        model = world.trained(select_easiest(world.train, scores, share=share, curriculum=False))
        by_share[share] = {
            "accuracy": world.accuracy(model),
            "validation": world.validation_accuracy(model),
            "reward": world.reward(model, None),
        }
    record["by_share"] = by_share
    record["share"] = max(SHARES, key=lambda share: by_share[share]["validation"])
    for name in ("accuracy", "reward"):
        record[name]["selected"] = by_share[record["share"]][name]
    return scores


def _controls(world: World, scores: pl.DataFrame, record: Record) -> None:
    controls = {
        "random half": select_random(world.train, share=0.5, seed=world.seed),
        "hardest half": select_hardest(world.train, scores, share=0.5),
        "easiest half, in order": select_easiest(world.train, scores, share=0.5, curriculum=True),
        "gold filtered": variants(
            ["gold_filtered"], world.train, world.train, world.train, scores, share=0.5, seed=0, gold=gold_rewards
        ),
    }
    for name, rows in controls.items():
        model = world.trained(rows)
        record["accuracy"][name] = world.accuracy(model)
        record["reward"][name] = world.reward(model, None)


def _augmentation(world: World, record: Record) -> None:
    augmented = augment(world.train, source_scores(world.train, attribute="score"), text=TEXT, ties="drop")
    model = world.trained(augmented)
    record["curve"]["augmented"] = world.curve(model)
    record["drift"]["augmented"] = world.drift(model)
    record["reward"]["augmented"] = record["curve"]["augmented"]["reward"]
    record["curve"]["unswapped"] = world.curve(world.trained(_unswapped(augmented)))


def _unswapped(augmented: pl.DataFrame) -> pl.DataFrame:
    """Negative control: the second half asks for the worse score and still prefers the better response."""
    second = pl.col("reason") == GOAL_OF_REJECTED
    return augmented.with_columns(
        chosen=pl.when(second).then("rejected").otherwise("chosen"),
        rejected=pl.when(second).then("chosen").otherwise("rejected"),
    )


def _without_optimum(world: World, record: Record) -> None:
    """The same comparison where no response of the training data is nearly right."""
    sides = [gold_rewards(world.train["prompt"], world.train[side]) < OPTIMUM for side in ("chosen", "rejected")]
    poor = world.train.filter(sides[0] & sides[1])
    augmented = augment(poor, source_scores(poor, attribute="score"), text=TEXT, ties="drop")
    found = world.curve(world.trained(augmented))
    record["without_optimum"] = {
        "train_pairs": len(poor),
        "untreated": world.reward(world.trained(poor), None),
        "augmented": found["reward"],
        "goal": found["goal"],
        "spearman": found["spearman"],
    }


def finished(size: str) -> list[Record]:
    """The worlds of this size that have been measured."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{size}-*.json"))]


def main(
    size: Annotated[str, typer.Option(help="Of the policy: tiny, small, medium or large.")] = "tiny",
    worlds: Annotated[int, typer.Option(help="How many worlds; their seeds are 0, 1, ...")] = 6,
) -> None:
    """Run the worlds that are not there yet, and write the page."""
    torch.set_num_threads(1)
    for seed in range(worlds):
        path = RESULTS / f"{size}-{seed}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            record = measured(size, seed, RESULTS / f"{size}-{seed}") if size == "tiny" else {}
            path.write_text(json.dumps(record, indent=1) + "\n")
        record = json.loads(path.read_text())
        if "new_pairs" not in record:  # all that is asked of larger policies
            record["new_pairs"] = on_new_pairs(size, seed, RESULTS / f"{size}-{seed}")
            path.write_text(json.dumps(record, indent=1) + "\n")
        typer.echo(f"{path} is there")
    tiny, larger = finished("tiny"), {name: found for name in ("small", "medium") if (found := finished(name))}
    if len(tiny) > 1:
        PAGE.write_text(page(tiny, larger, shares=SHARES, goals=GOALS))
        typer.echo(f"wrote {PAGE}")


if __name__ == "__main__":
    typer.run(main)
