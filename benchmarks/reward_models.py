"""Three kinds of reward under one protocol on real pairs: `python -m benchmarks.reward_models ../shared/data FOLDER`.

A linear head on sentence embeddings, a Bradley-Terry head on a language model, and the same language model as a judge,
with and without its first stage on pairs without labels. The language model is the first layers of
SmolLM2-135M-Instruct. All see the same labelled pairs (100, 300, 1,000, drawn from the train split), and are measured
on the same test pairs of other prompts. Finished runs are kept in FOLDER; prints tables of docs/reward_benchmark.md.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch
import typer

from assets.audit import aggregate_votes, deduplicate
from assets.pairs import decide
from benchmarks.smollm2_pair import first_layers
from pipelines import ROOT
from pipelines.graph import Graph
from preflow.evaluation import bootstrap_interval, correctness, mcnemar, paired_bootstrap
from preflow.generative_reward.judge import JUDGE, presentations
from preflow.generative_reward.training import pretrain_on_pairs, train_verdicts
from preflow.ingest.intake import ingest
from preflow.policies.policy import Policy, load_policy
from preflow.policies.recipe import Recipe
from preflow.reward.baseline import BradleyTerryReward, fit_reward_model
from preflow.reward.encoder import embed_texts, load_encoder
from preflow.reward_models.discriminative import HeadScorer, fit_discriminative
from preflow.reward_models.embedding import EmbeddingScorer
from preflow.reward_models.generative import JudgeScorer
from preflow.reward_models.scorer import Scorer
from preflow.store import ArrayStore
from preflow.world.smollm2 import smollm2_folder

LABELS = {"ukpconvarg1": "majority", "pandalm": "majority", "llmbar": "gold"}
BUDGETS = (100, 300, 1000)
EPOCHS = {100: 4.0, 300: 2.0, 1000: 1.0}  # small budgets need more passes to move at all
UNLABELLED, TEST, TOKENS, SEED = 400, 250, 256, 0
KINDS = ("embedding head", "Bradley-Terry head", "judge", "judge after stage 1")
RECIPE = Recipe(
    loss="dpo", beta=0.1, label_smoothing=0.0, target_margin=0.0, learning_rate=1e-4, schedule="cosine",
    warmup_share=0.1, epochs=1.0, batch_size=16, micro_batch_size=4, lora_rank=None, bf16=False,
    max_prompt_tokens=TOKENS, max_response_tokens=TOKENS, max_batch_tokens=2048,
)  # fmt: skip


@dataclass(frozen=True)
class Given:
    """Pairs of one source that the judge can read within TOKENS, by use."""

    train: pl.DataFrame
    """In the order in which budgets are filled."""
    validation: pl.DataFrame
    test: pl.DataFrame
    left_out: int


def read(path: Path, policy: Policy) -> Given:
    """Columns of `PreferencePairs`, and share, response_a and response_b."""
    params: Any = Graph(ROOT).params
    audit = params["audit"].model_copy(update={"test_fraction": 0.3})
    with TemporaryDirectory() as scratch:
        found = ingest(
            path, formats={}, hub=[], max_field_chars=100_000, min_score_margin=0.0, scratch=Path(scratch) / "s"
        )
        comparisons, votes = (table.collect().lazy() for table in (found.comparisons, found.votes))
    duplicates: Any = deduplicate(comparisons, votes, audit=audit)
    summaries: Any = aggregate_votes(comparisons, votes, audit=audit)
    how = params["pairs"].model_copy(
        update={"label": LABELS[path.name], "overrides": str(ROOT / "inputs/overrides.csv")}
    )
    decided: Any = decide(comparisons, summaries[0], duplicates[2], duplicates[1], pairs=how)
    pairs: pl.DataFrame = decided[0].collect()
    sides = comparisons.select("pair_id", "response_a", "response_b").collect()
    rows = pairs.join(sides, on="pair_id").with_columns(share="vote_share").sort("pair_id")
    shown = rows.select("prompt", "response_a", "response_b")
    kept = rows[list(presentations(policy.tokenizer, JUDGE, shown, max_prompt_tokens=TOKENS).rows)]
    kept = kept.sample(fraction=1.0, shuffle=True, seed=SEED)
    parts = {name: kept.filter(pl.col("split") == name) for name in ("train", "validation", "test")}
    return Given(parts["train"], parts["validation"][:TEST], parts["test"][:TEST], len(rows) - len(kept))


def scorers(given: Given, budget: int, policy: Policy, pretrained: Policy, folder: Path) -> dict[str, Scorer]:
    """Each kind, fitted on the first `budget` labelled pairs."""
    rows, recipe = given.train[:budget], replace(RECIPE, epochs=EPOCHS[budget])
    store = ArrayStore(folder / "scores")
    labelled = rows.select("prompt", "chosen", "rejected", "share")
    judges = {
        kind: train_verdicts(start, JUDGE, labelled, recipe, label_smoothing=0.05, convention="paper", seed=SEED)
        for kind, start in (("judge", policy), ("judge after stage 1", pretrained))
    }
    return {
        "embedding head": embedding_head(given, rows, folder),
        "Bradley-Terry head": HeadScorer(fit_discriminative(policy, rows, recipe, seed=SEED), recipe, store),
        **{kind: JudgeScorer(judge, store, TOKENS, RECIPE.max_batch_tokens) for kind, judge in judges.items()},
    }


def embedding_head(given: Given, rows: pl.DataFrame, folder: Path) -> EmbeddingScorer:
    """The baseline of the pipeline; its penalty is chosen on validation pairs, which the others do not look at."""
    encoder, store = load_encoder("package:all-MiniLM-L6-v2"), ArrayStore(folder / "embeddings")
    seen = pl.concat([rows, given.validation])
    texts = [*seen["chosen"], *seen["rejected"]]
    embeddings = embed_texts(texts, encoder, batch_size=8, max_tokens=256, store=store)
    model: BradleyTerryReward = fit_reward_model(
        seen, embeddings, l2_grid=[0.03, 0.1, 0.3, 1.0, 3.0], encoder=encoder.name, encoder_sha256=encoder.sha256
    )
    return EmbeddingScorer(model, encoder, store, 8, 256)


def margins(scorer: Scorer, test: pl.DataFrame) -> np.ndarray:
    """Reward of chosen less that of rejected, [n], by a scorer that does not know which is which."""
    first, second = (
        scorer.rewards(test.select("prompt", response=a, reference=b))
        for a, b in (("response_a", "response_b"), ("response_b", "response_a"))
    )
    return np.asarray(np.where(test["chosen_is"] == "a", 1, -1) * (first - second))


def measured(path: Path, folder: Path, budgets: list[int]) -> dict[str, Any]:
    """Margins of every kind and budget on the test pairs of a source."""
    kept = folder / f"{path.name}.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"margins": {}}
    wanted = [budget for budget in budgets if str(budget) not in found["margins"]]
    if not wanted:
        return found
    policy = load_policy(first_layers(smollm2_folder(folder), folder / "first_layers"), chat_template=None)
    policy.model.float()
    given = read(path, policy)
    pretrained = pretrain_on_pairs(policy, JUDGE, given.train[-UNLABELLED:], RECIPE, seed=SEED)
    found |= {
        "groups": given.test["prompt_group"].to_list(), "train": len(given.train), "left_out": given.left_out,
        "length": margins_of_length(given.test),
    }  # fmt: skip
    for budget in wanted:
        if budget <= len(given.train):
            made = scorers(given, budget, policy, pretrained, folder / path.name)
            found["margins"][str(budget)] = {kind: margins(one, given.test).tolist() for kind, one in made.items()}
            kept.write_text(json.dumps(found))
    return found


def margins_of_length(test: pl.DataFrame) -> list[float]:
    """By how much chosen is longer."""
    return (test["chosen"].str.len_chars().log() - test["rejected"].str.len_chars().log()).to_list()


def table(name: str, found: dict[str, Any]) -> str:
    """Accuracies with intervals, and what stage 1 adds."""
    groups, how = found["groups"], {"rounds": 2000, "seed": SEED}
    longer = bootstrap_interval(correctness(np.array(found["length"])), groups, **how)
    lines = [
        f"\n{name}: {len(groups)} test pairs, {found['train']} train pairs, {found['left_out']} too long; the longer "
        f"response is right on {longer.estimate:.3f} [{longer.low:.3f}, {longer.high:.3f}]\n",
        f"| labelled pairs | {' | '.join(KINDS)} | stage 1 adds |",
        f"|---|{'---|' * len(KINDS)}---|",
    ]
    for budget, by in found["margins"].items():
        right = {kind: correctness(np.array(by[kind])) for kind in KINDS}
        cells = [bootstrap_interval(right[kind], groups, **how) for kind in KINDS]
        gain = paired_bootstrap(right[KINDS[3]], right[KINDS[2]], groups, **how)
        p = mcnemar(right[KINDS[3]], right[KINDS[2]])["p_value"]
        shown = [f"{one.estimate:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in cells]
        lines.append(
            f"| {budget} | {' | '.join(shown)} | {gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], p {p:.2g} |"
        )
    return "\n".join(lines)


def main(
    data: Path,
    folder: Path,
    source: list[str] = list(LABELS),  # noqa: B006
    budget: list[int] = list(BUDGETS),  # noqa: B006
) -> None:
    """Fit, measure and print."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for name in source:
        typer.echo(table(name, measured(data / name, folder, budget)))


if __name__ == "__main__":
    typer.run(main)
