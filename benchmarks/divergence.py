"""Where people differ, on real votes: `python -m benchmarks.divergence ../shared/data`.

Every model of `preflow.divergence` on data that it has not seen: UKPConvArg1 with each debate held out in turn (three
others for validation, twelve for training), PandaLM in ten folds of whole prompts (one for validation). A response is
its embedding and features, as in the baseline reward model; every reward is linear in them, its
penalty and lambda chosen on the validation pairs. Prints one table per source as Markdown: accuracy against
the majority (pairs without one left out), AUROC of divergence within each fold, cross-entropy with the vote share; and
the paired differences to the reward gap of Bradley-Terry on all votes.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
import typer
from scipy.stats import wilcoxon

from preflow.audit.votes import summarise_votes
from preflow.divergence.annotators import annotator_clusters, careful_groups
from preflow.divergence.classes import agreement_classes, class_counts
from preflow.divergence.histograms import ballots, counts, share_a, vote_histograms
from preflow.divergence.mean_variance import opposite_sides
from preflow.divergence.models import MODELS, Recipe, VotedPairs, fit_best
from preflow.divergence.rewards import DistributionalReward, Reward
from preflow.divergence.schemas import OUTCOMES
from preflow.divergence.scores import best_weight, diverging_score, gap_and_spread
from preflow.evaluation import Interval, auroc, bootstrap_interval, correctness, mcnemar, paired_bootstrap
from preflow.ingest.intake import ingest
from preflow.reward.baseline import reward_inputs
from preflow.reward.bradley_terry import cross_entropy
from preflow.reward.encoder import embed_texts, load_encoder
from preflow.store import ArrayStore

ENCODER = "package:all-MiniLM-L6-v2"
GRID = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # lambda
MIN_AGREEMENT = 0.5  # of the careless
ROUNDS, SEED = 2000, 0
REFERENCE = "bt_all"
QUALITY = "bt_quality"  # trained on the vote share as the annotator-quality model sees it
L2_GRID = (0.3, 1.0, 3.0)
RECIPE = Recipe(widths=(), l2=0.0, lr=3e-3, epochs=12, batch_size=256, rho=0.0, sigma_floor=0.05, seed=SEED)


@dataclass(frozen=True)
class Source:
    """A source with its responses embedded; all arrays by pair, in order of pair id."""

    pairs: VotedPairs
    quality_share: np.ndarray
    diverging: np.ndarray
    group: np.ndarray


@dataclass(frozen=True)
class Predicted:
    """What one model says of the pairs held out from it."""

    margin: np.ndarray
    share: np.ndarray
    score: np.ndarray
    opposite: np.ndarray | None
    weight: float


def read(path: Path, store: ArrayStore) -> Source:
    """The comparisons on which at least two people voted; prints what became of the others."""
    with tempfile.TemporaryDirectory() as scratch:
        found = ingest(
            path, formats={}, hub=[], max_field_chars=100_000, min_score_margin=0.0, scratch=Path(scratch) / "scratch"
        )
        comparisons = found.comparisons.collect()
        votes = found.votes.filter(pl.col("annotator_kind") == "person").collect().lazy()
    summary, _, _ = summarise_votes(comparisons.lazy(), votes, worker_model="dawid_skene", iterations=100, seed=SEED)
    how = {"min_shared": 20, "max_p": 0.01, "permutations": 199, "seed": SEED}
    _, careless = careful_groups(votes, min_agreement=MIN_AGREEMENT, **how)
    classes = agreement_classes(comparisons.lazy(), votes, careless=careless)
    for picture, number in class_counts(classes).items():
        typer.echo(f"  {picture}: {number}")
    typer.echo(f"  {len(careless)} careless annotators; {differing_twice(ballots(votes))}")
    for picture, counted in (("all", votes), ("careful", votes.filter(~pl.col("annotator").is_in(careless)))):
        groups = annotator_clusters(counted, **how)
        sizes = groups.clusters["cluster"].drop_nulls().value_counts().sort("cluster")["count"].to_list()
        typer.echo(f"  groups of {picture} annotators: {groups.outcome}, sizes {sizes}, p {groups.p_value}")
    table = (
        classes.filter(pl.col("n_annotators") > 1)
        .join(comparisons, on="pair_id")
        .join(summary.select("pair_id", "worker_share_a"), on="pair_id")
        .join(vote_histograms(ballots(votes)), on="pair_id")
        .sort("pair_id")
    )
    return Source(
        VotedPairs(*inputs(table, store), torch.tensor(counts(table), dtype=torch.float32)),
        table["worker_share_a"].to_numpy(),
        (table["agreement_class"] == "diverging").to_numpy(),
        table["prompt_group"].to_numpy(),
    )


def inputs(table: pl.DataFrame, store: ArrayStore) -> list[torch.Tensor]:
    """Inputs of both responses, [n, d] each."""
    sides = [table[name].to_list() for name in ("response_a", "response_b")]
    embeddings = embed_texts(sides[0] + sides[1], load_encoder(ENCODER), batch_size=8, max_tokens=256, store=store)
    return [torch.tensor(reward_inputs(texts, embeddings), dtype=torch.float32) for texts in sides]


def differing_twice(given: pl.DataFrame) -> str:
    """What votes themselves say of other votes on the same pair: the AUROC of three for whether two more oppose.

    A model cannot be asked to tell more of two people than three others on the very pair do.
    """
    side = pl.col("outcome").str.slice(0, 1)
    order = pl.col("annotator").hash(SEED).rank("ordinal").over("pair_id")
    value = pl.when(side == "a").then(1).when(side == "b").then(-1).otherwise(0)
    rows = given.with_columns(order=order, value=value).filter(pl.col("annotator").count().over("pair_id") >= 5)
    if rows.is_empty():
        return "too few votes a pair to hold some out"
    told = (
        rows.group_by("pair_id")
        .agg(
            mean=pl.col("value").filter(pl.col("order") <= 3).mean(),
            product=pl.col("value").filter(pl.col("order").is_in([4, 5])).product(),
        )
        .sort("pair_id")
    )
    found = auroc(-told["mean"].abs().to_numpy(), (told["product"] == -1).to_numpy())
    return f"three votes tell whether two more oppose with AUROC {found:.3f} ({len(told)} pairs)"


def folds(group: np.ndarray, count: int, validation: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Rows to train on, to validate on and to test on, `count` times; whole groups, in a seeded order."""
    names = np.random.default_rng(SEED).permutation(np.unique(group))
    parts = np.array_split(names, min(count, len(names)))
    for number in range(len(parts)):
        test, *chosen = (np.isin(group, parts[(number + k) % len(parts)]) for k in range(1 + validation))
        validating = np.any(chosen, axis=0)
        yield tuple(np.flatnonzero(rows) for rows in (~test & ~validating, validating, test))  # type: ignore[misc]


def quality_pairs(source: Source) -> VotedPairs:
    """The pairs with the share of the annotator-quality model in place of the counts."""
    made = np.zeros((len(source.pairs), len(OUTCOMES)))
    made[:, OUTCOMES.index("a_unstated")] = source.quality_share
    made[:, OUTCOMES.index("b_unstated")] = 1 - source.quality_share
    return VotedPairs(source.pairs.a, source.pairs.b, torch.tensor(made, dtype=torch.float32))


@torch.no_grad()
def predict(model: Reward, source: Source, validation: np.ndarray, test: np.ndarray) -> Predicted:
    """Of the test pairs, with lambda from the validation pairs."""
    chosen, pairs = source.pairs[torch.tensor(validation)], source.pairs[torch.tensor(test)]
    weight = best_weight(*gap_and_spread(model, chosen.a, chosen.b), source.diverging[validation], grid=GRID)
    opposite = None
    if isinstance(model, DistributionalReward):
        opposite = opposite_sides(model.log_bins(pairs.a, pairs.b)).numpy()
    return Predicted(
        (model.moments(pairs.a)[0] - model.moments(pairs.b)[0]).numpy(),
        model.share_a(pairs.a, pairs.b).double().numpy(),
        diverging_score(*gap_and_spread(model, pairs.a, pairs.b), weight),
        opposite,
        weight,
    )


def measure(source: Source, splits: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> dict[str, list[Predicted]]:
    """Predictions of every model on every fold."""
    trained = dict.fromkeys(MODELS, source.pairs) | {QUALITY: quality_pairs(source)}
    found: dict[str, list[Predicted]] = {name: [] for name in trained}
    for train, validation, test in splits:
        for name, pairs in trained.items():
            kind = REFERENCE if name == QUALITY else name
            parts = (pairs[torch.tensor(rows)] for rows in (train, validation))
            model = fit_best(kind, *parts, RECIPE, l2_grid=L2_GRID, inputs={"encoder": ENCODER})
            found[name].append(predict(model, source, validation, test))
    return found


def shown(interval: Interval, *, sign: bool = False) -> str:
    """Estimate and 95 % interval."""
    form = "+.3f" if sign else ".3f"
    return f"{interval.estimate:{form}} [{interval.low:{form}}, {interval.high:{form}}]"


def report(source: Source, splits: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
    """Measure and print."""
    rows = np.concatenate([test for *_, test in splits])
    group, truth = source.group[rows], source.pairs.majority.numpy()[rows]
    share = share_a(source.pairs.counts.double().numpy())[rows]
    found = measure(source, splits)
    how = {"rounds": ROUNDS, "seed": SEED}
    decided = truth != 0
    right, area, loss, opposite = {}, {}, {}, {}
    for name, parts in found.items():
        margin = np.concatenate([part.margin for part in parts])
        right[name] = correctness(margin * truth)[decided]
        p = np.concatenate([part.share for part in parts]).clip(1e-6, 1 - 1e-6)
        loss[name] = cross_entropy(np.log(p / (1 - p)), share)
        labels = [source.diverging[test] for *_, test in splits]
        area[name] = np.array([auroc(part.score, label) for part, label in zip(parts, labels, strict=True)])
        if parts[0].opposite is not None:
            opposite[name] = np.mean([auroc(part.opposite, label) for part, label in zip(parts, labels, strict=True)])
    constant = cross_entropy(np.zeros(len(share)), share).mean()
    typer.echo(f"  {len(rows)} pairs, {decided.sum()} with a majority; {source.diverging.mean():.3f} diverge")
    typer.echo(f"  cross-entropy of the share: {constant:.4f} for one half, {entropy(share).mean():.4f} at best\n")
    typer.echo("| model | accuracy | AUROC | median lambda | AUROC of opposite sides | share cross-entropy |")
    typer.echo("|---|---|---|---|---|---|")
    for name, parts in found.items():
        cells = [
            shown(bootstrap_interval(right[name], group[decided], **how)),
            shown(bootstrap_interval(area[name], None, **how)),
            f"{np.median([part.weight for part in parts]):g}",
            f"{opposite[name]:.3f}" if name in opposite else "",
            shown(bootstrap_interval(loss[name], group, **how)),
        ]
        typer.echo(f"| {name} | {' | '.join(cells)} |")
    typer.echo(f"\n| minus {REFERENCE} | accuracy | McNemar p | AUROC | Wilcoxon p | share cross-entropy |")
    typer.echo("|---|---|---|---|---|---|")
    for name in found.keys() - {REFERENCE}:
        cells = [
            shown(paired_bootstrap(right[name], right[REFERENCE], group[decided], **how), sign=True),
            f"{mcnemar(right[name], right[REFERENCE])['p_value']:.2g}",
            shown(paired_bootstrap(area[name], area[REFERENCE], None, **how), sign=True),
            f"{wilcoxon(area[name], area[REFERENCE]).pvalue:.2g}",
            shown(paired_bootstrap(loss[name], loss[REFERENCE], group, **how), sign=True),
        ]
        typer.echo(f"| {name} | {' | '.join(cells)} |")


def entropy(share: np.ndarray) -> np.ndarray:
    """Of the vote share as a coin, in nats: the least cross-entropy there is."""
    inner = share.clip(1e-12, 1 - 1e-12)
    return -inner * np.log(inner) - (1 - inner) * np.log(1 - inner)


def main(data: Path, store: Path = Path(".cache/benchmarks/embeddings")) -> None:
    """Measure on UKPConvArg1 and on PandaLM, which lie in folders of these names in `data`."""
    torch.set_num_threads(1)
    arrays = ArrayStore(store)
    for name, count, validation in (("ukpconvarg1", 16, 3), ("pandalm", 10, 1)):
        typer.echo(f"\n{name}")
        source = read(data / name, arrays)
        report(source, list(folds(source.group, count, validation)))


if __name__ == "__main__":
    typer.run(main)
