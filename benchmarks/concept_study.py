"""What concept losses are worth on real digits: `python -m benchmarks.concept_study`.

scikit-learn's 1,797 digits of 8 x 8 pixels with 22 concepts; labels of train and validation flipped uniformly at five
rates, five seeds (split, noise, start and batches), every loss over one grid of lambda. Prints, as Markdown: each loss
at the lambda chosen on noisy validation; paired differences to BCE and to the best robust loss; the Pareto front; the
relabel queue beside confident learning; intervention curves. About a quarter of an hour on one core.
"""

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import polars as pl
import torch
import typer

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.comparison import paired_comparisons, pareto_front
from preflow.concepts.digits import load_digits_8x8
from preflow.concepts.interventions import POLICIES, intervention_curve, intervention_values
from preflow.concepts.loss import ConceptLoss
from preflow.concepts.losses import concept_loss
from preflow.concepts.networks import Architecture
from preflow.concepts.noise import plant_noise
from preflow.concepts.posterior import (
    by_posterior,
    by_self_confidence,
    flip_rates,
    noisy_posterior,
    out_of_fold_logits,
    p_wrong,
    precision_at_planted,
)
from preflow.concepts.recipe import Recipe, Setting
from preflow.concepts.splits import NoisySplits, noisy_splits
from preflow.concepts.study import concept_study
from preflow.concepts.training import train_bottlenecks

RATES = (0.0, 0.1, 0.2, 0.3, 0.4)
SEEDS = (0, 1, 2, 3, 4)
LAMBDAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
LOSSES: tuple[ConceptLoss, ...] = (
    concept_loss("bce"),
    concept_loss("smoothed_bce", smoothing=0.2),
    concept_loss("generalised_ce", q=0.7),
    concept_loss("symmetric_bce", weight=0.1),
    concept_loss("forward_bce"),
    concept_loss("cpo", beta=1.0, draws=0),
    concept_loss("cpo_joint", beta=0.1, draws=1),
    concept_loss("cpo_joint", beta=0.3, draws=1),
)
RECIPE = Recipe(
    architecture=Architecture(encoder="mlp", widths=[64], embedding=0),
    mode="joint", epochs=50, batch_size=64, lr=2e-3, checkpoints=10, intervened=0.25,
)  # fmt: skip
SHOWN = ("concept_auc", "task_accuracy", "memorised", "concept_ece")
TESTED = ("concept_auc", "task_accuracy", "memorised")
QUEUED = (0.2, 0.4)  # rates at which labels are queued and concepts intervened on
FOLDS = 3


@cache
def digits(rate: float, seed: int) -> NoisySplits:
    """The digits, dealt anew and with new noise for each seed."""
    data = load_digits_8x8(seed=seed)
    noisy, truth = plant_noise(
        data.items, data.concepts, data.labels, model="uniform", rate=rate, exact=False, seed=seed
    )
    return noisy_splits(data.items, data.concepts, noisy, truth)


def markdown(table: pl.DataFrame) -> None:
    """Print a table."""
    with pl.Config(
        tbl_formatting="MARKDOWN", tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True, tbl_rows=-1,
        tbl_cols=-1, fmt_str_lengths=60, tbl_width_chars=240,
    ):  # fmt: skip
        typer.echo(f"\n{table}\n")


def print_chosen(runs: pl.DataFrame, checkpoint: str) -> None:
    """Each method at its chosen lambda by rate: means over seeds with standard errors, a table a metric."""
    chosen = runs.filter(pl.col("chosen") & (pl.col("checkpoint") == checkpoint))
    for metric in SHOWN:
        values = chosen.filter(pl.col(metric).is_finite())
        value = pl.format("{} ± {}", *(part.round(4) for part in (pl.col(metric).mean(), _error(metric))))
        means = values.group_by("method", "rate", maintain_order=True).agg(value.alias(metric))
        typer.echo(f"\n{metric}, checkpoint {checkpoint}")
        markdown(means.pivot("rate", index="method"))


def _error(metric: str) -> pl.Expr:
    return pl.col(metric).std() / pl.len().sqrt()


def print_lambdas(runs: pl.DataFrame, checkpoint: str) -> None:
    """The lambdas that the seeds chose, by rate."""
    chosen = runs.filter(pl.col("chosen") & (pl.col("checkpoint") == checkpoint))
    lambdas = pl.col("lambda").sort().cast(pl.Int64).cast(pl.String).str.join(" ")
    typer.echo(f"\nchosen lambdas, checkpoint {checkpoint}")
    markdown(chosen.group_by("method", "rate", maintain_order=True).agg(lambdas).pivot("rate", index="method"))


def print_tests(runs: pl.DataFrame, baseline: str, checkpoint: str) -> None:
    """Paired differences of every method to a baseline with 95 % t intervals; p of Holm, a table a metric."""
    tests = paired_comparisons(runs, baseline=baseline, checkpoint=checkpoint, metrics=TESTED)
    tests = tests.filter(pl.col("seeds") > 0)  # without flips nothing is memorised
    numbers = [pl.col(name).round(4) for name in ("difference", "low", "high")]
    text = pl.format("{} [{}, {}] p {}", *numbers, pl.col("p_adjusted").round_sig_figs(2)).alias("text")
    for metric in TESTED:
        typer.echo(f"\n{metric} minus that of {baseline}, checkpoint {checkpoint}")
        part = tests.filter(pl.col("metric") == metric).select("method", "rate", text)
        markdown(part.pivot("rate", index="method"))


def print_front(runs: pl.DataFrame) -> None:
    """The settings that no other passes in both goals, last checkpoint."""
    front = pareto_front(runs).filter(pl.col("on_front") & (pl.col("checkpoint") == "last"))
    numbers = [pl.col(name).round(4) for name in ("concept_auc", "concept_auc_se", "task_accuracy", "task_accuracy_se")]
    markdown(front.select("rate", "method", "lambda", *numbers).sort("rate", "concept_auc"))


@cache
def uneven_digits(seed: int) -> NoisySplits:
    """The digits with a flip rate of its own for each concept, from .02 to .38 in random order."""
    clean, generator = digits(0.0, seed), torch.Generator().manual_seed(seed)
    k = clean.true_train.shape[1]
    rates = torch.linspace(0.02, 0.38, k)[torch.randperm(k, generator=generator)]

    def flip(split: ConceptArrays) -> ConceptArrays:
        turned = torch.rand(split.concepts.shape, generator=generator) < rates
        return split.with_concepts(torch.where(turned, 1 - split.concepts, split.concepts))

    return replace(clean, train=flip(clean.train), validation=flip(clean.validation))


def chosen_setting(runs: pl.DataFrame, loss: ConceptLoss, rate: float, seed: int) -> Setting:
    """The loss at the lambda that it chose."""
    beta = pl.col("beta").is_null() if loss.name == "bce" else pl.col("beta") == loss.settings["beta"]
    at = runs.filter("chosen", beta, checkpoint="best", loss=loss.name, rate=rate, seed=seed)
    return Setting(loss, at["lambda"].item())


def queue_row(splits: NoisySplits, setting: Setting, seed: int) -> dict[str, float]:
    """Precision at the planted count of the posterior and of confident learning, on the same predictions."""
    labels, truth = splits.train.concepts, splits.true_train
    logits = out_of_fold_logits(
        splits.train, splits.validation, setting, RECIPE, classes=splits.classes, folds=FOLDS, seed=seed
    )
    noisy = noisy_posterior(logits, beta=setting.loss.settings.get("beta", 0.0))
    rates = flip_rates(noisy, labels)
    ours, theirs = by_posterior(p_wrong(noisy, labels, rates), noisy, labels), by_self_confidence(noisy, labels)
    planted = (labels != truth).float().mean(0)
    return {
        "posterior": precision_at_planted(ours, labels, truth),
        "confident_learning": precision_at_planted(theirs, labels, truth),
        "rate_estimated": float(rates.mean()),
        "rate_error": float((rates - planted).abs().mean()),
    }


def print_queue(runs: pl.DataFrame) -> None:
    """The relabel queue, means over seeds; where rates differ by concept, at the lambda chosen for .2."""
    worlds = {f"uniform {rate}": (rate, partial(digits, rate)) for rate in QUEUED}
    worlds["by concept, .02 to .38"] = (0.2, uneven_digits)
    rows = [
        {"noise": noise, "loss": loss.name} | queue_row(splits(seed), chosen_setting(runs, loss, rate, seed), seed)
        for noise, (rate, splits) in worlds.items()
        for loss in (LOSSES[0], LOSSES[6])
        for seed in SEEDS
    ]
    table = pl.DataFrame(rows).with_columns(gain=pl.col("posterior") - pl.col("confident_learning"))
    names = ("posterior", "confident_learning", "gain", "rate_estimated", "rate_error")
    numbers = [pl.col(name).mean().round(4) for name in names]
    error, better = _error("gain").round(4).alias("gain_se"), (pl.col("gain") > 0).sum().alias("better")
    markdown(table.group_by("noise", "loss", maintain_order=True).agg(*numbers, error, better, seeds=pl.len()))


def print_interventions(runs: pl.DataFrame, rate: float) -> None:
    """Task accuracy after 0, 1, 2, 4, 8, 16 and all corrections, means over seeds."""
    rows = []
    for seed in SEEDS:
        splits = digits(rate, seed)
        for method, loss in (("bce", LOSSES[0]), ("cpo_joint, beta 0.1", LOSSES[6])):
            setting = chosen_setting(runs, loss, rate, seed)
            model = train_bottlenecks(
                splits.train, splits.validation, [setting], RECIPE, classes=splits.classes, seed=seed
            ).best.one(0)
            values = intervention_values(model, splits.train)
            for policy in POLICIES:
                curve = intervention_curve(model, splits.test, values, policy=policy, seed=seed)
                rows.append(curve.with_columns(method=pl.lit(method), policy=pl.lit(policy), seed=pl.lit(seed)))
    table = pl.concat(rows).filter(pl.col("corrected").is_in([0, 1, 2, 4, 8, 16, 22]))
    means = table.group_by("method", "policy", "corrected", maintain_order=True).agg(pl.col("task_accuracy").mean())
    wide = means.with_columns(pl.col("task_accuracy").round(3)).pivot("corrected", index=["method", "policy"])
    typer.echo(f"\nInterventions at rate {rate}")
    markdown(wide)


def main(out: Path = Path(".cache/benchmarks/concept_study.parquet")) -> None:
    """Run the study, keep its rows in `out`, and print it."""
    torch.set_num_threads(1)
    runs = concept_study(digits, LOSSES, RECIPE, lambdas=LAMBDAS, rates=RATES, seeds=SEEDS)
    out.parent.mkdir(parents=True, exist_ok=True)
    runs.write_parquet(out)
    for checkpoint in ("best", "last"):
        print_chosen(runs, checkpoint)
        print_lambdas(runs, checkpoint)
        for baseline in ("bce", "symmetric_bce, weight 0.1"):
            print_tests(runs, baseline, checkpoint)
    print_front(runs)
    print_queue(runs)
    for rate in QUEUED:
        print_interventions(runs, rate)


if __name__ == "__main__":
    typer.run(main)
