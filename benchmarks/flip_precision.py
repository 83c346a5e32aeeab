"""Precision of `suspected_flip` under planted flips, by the stages: `python -m benchmarks.flip_precision`.

Pairs of writers' answers in the feedback world, three to five votes each; of a fifth of the decided pairs all votes are
turned round, so that no vote gives a flip away. The stages run with the values of params.yaml. A label is wrong where
the gold reward says the other response; pairs that the gold reward ties are left out. No policy is trained, so the
evidence is the votes and the out-of-fold reward model.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import typer

from assets.audit import aggregate_votes, deduplicate
from assets.divergence import classify
from assets.pairs import decide
from assets.reward import fit_baseline, response_embeddings
from assets.triage import group_preferences, sort_out
from pipelines import ROOT
from pipelines.graph import Graph
from preflow.divergence.schemas import PredictedDivergence
from preflow.ingest.intake import ingest
from preflow.reasons.schemas import DivergenceReasons
from preflow.reward_models.scores import out_of_fold
from preflow.treatments.schemas import DifficultyScores
from preflow.world.feedback import PANEL, pair_up, world_feedback
from preflow.world.tasks import FAMILIES, LEVELS, distinct_tasks
from preflow.world.writers import corrupted_answers

TOP = 0.05
TURNED = 0.2


def flip_precision(*, prompts: int, seed: int, params: dict[str, Any]) -> dict[str, float | int]:
    """Labelled pairs, the share of them that are wrong, and that of the TOP share by suspected flip."""
    with tempfile.TemporaryDirectory() as folder:
        table, truth = _triaged(prompts, seed, params, Path(folder))
    decided = truth.lazy().filter(pl.col("gold") != "tie")
    known = table.filter(pl.col("label").is_in(["a", "b"])).join(decided, on="pair_id")
    found = known.select(
        "pair_id", "suspected_flip", wrong=pl.col("label").cast(pl.String) != pl.col("gold").cast(pl.String)
    )
    ranked = found.collect().sort(["suspected_flip", "pair_id"], descending=[True, False])
    top = ranked.head(round(TOP * len(ranked)))
    return {"pairs": len(ranked), "wrong": float(ranked["wrong"].mean()), "precision": float(top["wrong"].mean())}


def _triaged(prompts: int, seed: int, params: dict[str, Any], folder: Path) -> tuple[pl.LazyFrame, pl.DataFrame]:
    rng = np.random.default_rng([seed, 7])
    tasks = distinct_tasks(prompts, rng, families=list(FAMILIES), levels=LEVELS, exclude=frozenset())
    answers = [
        answer for _ in range(2) for answer in corrupted_answers(tasks, errors=(1, 2, 3, 4, 5, 6), style=0.2, rng=rng)
    ]
    world = world_feedback(
        pair_up(answers, pairs_per_prompt=1, rng=rng), annotators=PANEL, votes_per_pair=(3, 4, 5), flip_rate=TURNED,
        judge=None, seed=seed,
    )  # fmt: skip
    world.save_to_disk(folder / "in")
    (folder / "scratch").mkdir()
    read = ingest(
        folder / "in", formats={}, hub=[], max_field_chars=100_000, min_score_margin=0.5, scratch=folder / "scratch"
    )
    comparisons, votes = (table.collect().lazy() for table in (read.comparisons, read.votes))
    given = {name: params[name] for name in ("audit", "pairs", "reward", "divergence", "triage")}
    store = given["reward"].model_copy(update={"store": str(folder / "embeddings")})
    clusters, contradictions, splits, _ = deduplicate(comparisons, votes, audit=given["audit"])
    summary, _, _ = aggregate_votes(comparisons, votes, audit=given["audit"])
    pairs, decisions, *_ = decide(comparisons, summary, splits, contradictions, pairs=given["pairs"])
    embeddings = response_embeddings(comparisons, reward=store)
    outputs = {out.output_name: out.value for out in fit_baseline(pairs, embeddings, reward=store)}
    classes, groups, _ = classify(comparisons, votes, divergence=given["divergence"])
    scores = out_of_fold(outputs["reward_predictions"], pairs, reward="baseline").lazy()
    table, _, _ = sort_out(
        comparisons, decisions, summary, classes, _nothing(DivergenceReasons),
        group_preferences(votes, groups, divergence=given["divergence"]), _nothing(PredictedDivergence),
        scores, _nothing(DifficultyScores), clusters, contradictions, triage=given["triage"],
    )  # fmt: skip
    return table, world.truth


def _nothing(schema: Any) -> pl.LazyFrame:
    return schema.create_empty().lazy()


def main(prompts: int = 1_000, seeds: list[int] = [11, 12, 13]) -> None:  # noqa: B006
    """Print a line a seed, and the precision over all."""
    params = Graph(ROOT).params
    found = [flip_precision(prompts=prompts, seed=seed, params=params) for seed in seeds]
    typer.echo("| seed | labelled pairs | wrong in all | wrong among the top 5 % |\n|---|---|---|---|")
    for seed, one in zip(seeds, found, strict=True):
        typer.echo(f"| {seed} | {one['pairs']} | {one['wrong']:.3f} | {one['precision']:.3f} |")
    typer.echo(f"\nmean precision {np.mean([one['precision'] for one in found]):.3f}")


if __name__ == "__main__":
    typer.run(main)
