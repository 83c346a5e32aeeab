"""Which concept loss is worth what: every loss over one grid of weights, on the same items, noise and seeds.

Losses differ in scale, and CPO's strength is beta * lambda, so that a comparison at one lambda is confounded. Here
every loss is swept over the same grid, and its lambda is chosen by what its user has, noisy validation labels: the
largest `selection_score`. What is reported is measured on clean test labels that nothing was chosen by.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product

import numpy as np
import polars as pl

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.loss import Beside, ConceptLoss
from preflow.concepts.losses import concept_loss
from preflow.concepts.metrics import concept_auc, scores
from preflow.concepts.posterior import flip_rates, noisy_posterior, out_of_fold_logits
from preflow.concepts.recipe import Recipe, Setting
from preflow.concepts.robust import ForwardBCE
from preflow.concepts.splits import NoisySplits
from preflow.concepts.stack import Stack
from preflow.concepts.training import Trained, selection_score, train_bottlenecks

Noisy = Callable[[float, int], NoisySplits]
"""The splits at a rate of flips, drawn anew for each seed."""
RATE_FOLDS = 3
METRICS = ("concept_auc", "task_accuracy", "concept_ece", "brier", "memorised", "peak_to_final_auc", "uncertainty")


def concept_study(
    noisy: Noisy,
    losses: Sequence[ConceptLoss],
    recipe: Recipe,
    *,
    lambdas: Sequence[float],
    rates: Sequence[float],
    seeds: Sequence[int],
) -> pl.DataFrame:
    """The rows of `run_study` for every rate and seed; the seed is that of the noise, the start and the batches."""
    tables = [
        run_study(noisy(rate, seed), losses, recipe, lambdas=lambdas, seed=seed).with_columns(rate=pl.lit(float(rate)))
        for rate, seed in product(rates, seeds)
    ]
    return pl.concat(tables)


def run_study(
    splits: NoisySplits, losses: Sequence[ConceptLoss], recipe: Recipe, *, lambdas: Sequence[float], seed: int
) -> pl.DataFrame:
    """Train every loss with every lambda once: settings, `validation_score`, METRICS on test, and `chosen`.

    `memorised` is of the train labels. Of each model there are two rows: its `best` checkpoint on noisy validation, and
    the `last`. `chosen` marks, for each loss and kind of checkpoint, the lambda with the best validation score.
    """
    settings = [Setting(loss, weight) for loss in losses for weight in lambdas]
    beside = needed_beside(splits.train, splits.validation, losses, recipe, classes=splits.classes, seed=seed)
    course: list[np.ndarray] = []

    def observe(stack: Stack) -> None:
        course.append(concept_auc(stack.predict(splits.test).concepts, splits.test.concepts).numpy())

    trained = train_bottlenecks(
        splits.train, splits.validation, settings, recipe,
        classes=splits.classes, seed=seed, beside=beside, observe=observe,
    )  # fmt: skip
    peak = np.max(course, axis=0)
    rows = [_measured(trained, kind, splits, peak) for kind in ("best", "last")]
    described = pl.DataFrame([named(setting) for setting in settings])
    table = pl.concat([pl.concat([described, part], how="horizontal") for part in rows])
    return with_chosen(table.with_columns(seed=pl.lit(seed), mode=pl.lit(recipe.mode)))


def with_chosen(runs: pl.DataFrame) -> pl.DataFrame:
    """A seed's runs with `chosen`: the best `validation_score` of each method and checkpoint, at the least lambda."""
    order = runs.sort("validation_score", "lambda", descending=[True, False])
    chosen = order.unique(["method", "checkpoint"], keep="first").select("method", "checkpoint", "lambda", chosen=True)
    marked = runs.join(chosen, on=["method", "checkpoint", "lambda"], how="left", maintain_order="left")
    return marked.with_columns(pl.col("chosen").fill_null(value=False))


def needed_beside(
    train: ConceptArrays,
    validation: ConceptArrays,
    losses: Sequence[ConceptLoss],
    recipe: Recipe,
    *,
    classes: int,
    seed: int,
) -> Beside:
    """What the losses take beside logits: flip rates of the training labels where one corrects for them.

    The rates come from encoders that learn from concepts alone, out of fold, so that they need no lambda.
    """
    if not any(isinstance(loss, ForwardBCE) for loss in losses):
        return Beside()
    plain = replace(recipe, mode="sequential", architecture=replace(recipe.architecture, embedding=0))
    logits = out_of_fold_logits(
        train, validation, Setting(concept_loss("bce"), 1.0), plain, classes=classes, folds=RATE_FOLDS, seed=seed
    )
    return Beside(flip_rates=flip_rates(noisy_posterior(logits, beta=0), train.concepts))


def named(setting: Setting) -> dict[str, float | str | None]:
    """What a row says of its loss: `method` is the loss with the settings that tell it from others of its name."""
    own = {name: value for name, value in asdict(setting.loss).items() if name not in ("reduction", "joint", "draws")}
    method = ", ".join([setting.loss.name, *(f"{name} {value:g}" for name, value in own.items())])
    return {
        "method": method,
        "loss": setting.loss.name,
        "lambda": float(setting.weight),
        "beta": own.get("beta"),
        "reduction": setting.loss.reduction,
        "samples": setting.loss.samples,
    }


def _measured(trained: Trained, kind: str, splits: NoisySplits, peak: np.ndarray) -> pl.DataFrame:
    """Scores of the models of one kind of checkpoint, a row each."""
    stack = trained.best if kind == "best" else trained.last
    on_train, on_test = stack.predict(splits.train), stack.predict(splits.test)
    found = scores(on_test, splits.test, on_train, splits.train.concepts, splits.true_train)
    values = {
        "validation_score": selection_score(stack.predict(splits.validation), splits.validation),
        "peak_to_final_auc": peak - found["concept_auc"].numpy(),
    }
    return pl.DataFrame({"checkpoint": kind} | {name: np.asarray(value) for name, value in (values | found).items()})
