"""Concepts under noisy labels: data, planted noise, bottlenecks, what they are worth, and which labels to doubt."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import dagster as dg
import polars as pl
from dagster import MetadataValue as Meta
from pydantic import Field

from preflow.concepts.schemas import (
    ConceptItems,
    ConceptLabels,
    ConceptPredictions,
    ConceptQuarantine,
    ConceptRuns,
    Concepts,
    ConceptScores,
    DoubtedLabels,
    FlipRates,
    NoisyConceptLabels,
    TrueConceptLabels,
)
from preflow.params import Params, ProjectPath

if TYPE_CHECKING:
    from preflow.concepts.loss import ConceptLoss
    from preflow.concepts.recipe import Recipe


class CelebaParams(Params):
    """How classes are made of CelebA's attributes."""

    concepts: int = Field(gt=0)
    """Attributes nearest to one half that models are taught; above 0."""
    hidden: int = Field(ge=0)
    """Further attributes that only the class knows; at least 0."""
    one_in: int = Field(gt=0)
    """Take one image in so many; above 0."""


class NoiseParams(Params):
    """Label noise planted in train and validation, so that methods can be measured against the truth."""

    model: Literal["none", "uniform", "class_conditional", "annotator", "visibility", "adversarial"]
    """Where the noise falls; none to learn from the labels as they are."""
    rate: float = Field(ge=0, le=1)
    """Share of the labels that are flipped; 0 to 1."""
    exact: bool
    """Exactly that share; false draws every label apart."""


class BottleneckParams(Params):
    """How concept bottlenecks are built and trained."""

    encoder: Literal["mlp", "cnn", "resnet34"]
    """mlp (features, or pixels in a row), cnn or resnet34 (images; needs torchvision)."""
    widths: list[int]
    """Hidden layers of the mlp; the last, dense layer of the cnn."""
    embedding: int = Field(ge=0)
    """Size of concept embeddings; 0 for a plain bottleneck."""
    mode: Literal["joint", "sequential", "independent"]
    """joint (label loss plus lambda times concept loss), sequential or independent."""
    epochs: int = Field(gt=0)
    """Passes over the items; above 0."""
    batch_size: int = Field(gt=0)
    """Items an update; above 0."""
    lr: float = Field(gt=0)
    """Learning rate; above 0."""
    checkpoints: int = Field(gt=0)
    """Evaluations on noisy validation, of which the best is kept; above 0, at most the epochs."""
    intervened: float = Field(ge=0, le=1)
    """Share of concepts that are given while concept embeddings train; 0 to 1."""

    def recipe(self) -> "Recipe":
        """The same, as the library takes it."""
        from preflow.concepts.networks import Architecture
        from preflow.concepts.recipe import Recipe

        parts = {"encoder", "widths", "embedding"}
        return Recipe(architecture=Architecture(**self.model_dump(include=parts)), **self.model_dump(exclude=parts))


class LossParams(Params):
    """A concept loss with its settings."""

    name: Literal["bce", "smoothed_bce", "generalised_ce", "symmetric_bce", "forward_bce", "cpo", "cpo_joint"]
    """Which loss."""
    settings: dict[str, float]
    """smoothing; q; weight; beta and draws: see docs/concept_bottleneck.md."""

    def loss(self) -> "ConceptLoss":
        """The same, as the library takes it."""
        from preflow.concepts.losses import concept_loss

        whole = {name: int(value) if name == "draws" else value for name, value in self.settings.items()}
        return concept_loss(self.name, **whole)


class DoubtParams(Params):
    """How labels are doubted."""

    loss: LossParams
    """The loss of the models that doubt."""
    weight: float = Field(gt=0)
    """Its lambda; above 0."""
    folds: int = Field(ge=2)
    """A label is doubted by models that have not seen its item; at least 2 folds."""


class ConceptsParams(Params):
    """Section `concepts`: which items and concepts, what noise, and what is trained."""

    dataset: Literal["digits_8x8", "digits_28x28", "folder"]
    """digits_8x8 or digits_28x28, which need no file, or folder: what `path` holds."""
    path: ProjectPath
    """Folder of CUB-200-2011, CelebA, AwA2, or of items and concepts of your own (see its README)."""
    image_side: int = Field(gt=0)
    """Side of images in pixels; above 0."""
    min_classes: int | None = Field(gt=0)
    """CUB: labels denoised by class, attributes that hold in so many; null for labels as annotated."""
    celeba: CelebaParams | None
    """CelebA: classes as codes of attributes; null for identities."""
    noise: NoiseParams
    """What is planted."""
    bottleneck: BottleneckParams
    """How models are built and trained."""
    losses: list[LossParams] = Field(min_length=1)
    """Losses that are compared; the first is the baseline."""
    lambdas: list[float] = Field(min_length=1)
    """Weights of the concept loss, tried with every loss."""
    seeds: list[int] = Field(min_length=1)
    """Every loss and weight is trained once with each."""
    doubts: DoubtParams
    """How labels are doubted."""
    threads: int = Field(gt=0)
    """CPU threads; above 0."""
    seed: int = Field(ge=0)
    """Seed of splits, noise and folds; at least 0."""


def _table(schema: type, description: str, *, may_be_empty: bool = False, truth: bool = False) -> dg.AssetOut:
    marks = {"may_be_empty": may_be_empty, "truth": truth}
    return dg.AssetOut(
        io_manager_key="table",
        metadata={"schema": Meta.python_artifact(schema)} | {name: True for name, mark in marks.items() if mark},
        description=description,
        kinds={"polars"},
    )


concept_files = dg.AssetSpec(
    "concept_files",
    description="The user's items and concepts, read where `concepts.dataset` is folder; never written to.",
    metadata={"path": "${concepts.path}"},
    kinds={"file"},
    owners=["team:concepts"],
)


@dg.multi_asset(
    outs={
        "concept_items": _table(ConceptItems, "What a model sees, and its class."),
        "concept_names": _table(Concepts, "The concepts."),
        "concept_labels": _table(ConceptLabels, "Which item shows which concept, as the source says.", truth=True),
        "concept_quarantine": _table(ConceptQuarantine, "Every refused cell, with a reason.", may_be_empty=True),
        "concept_intake": dg.AssetOut(
            io_manager_key="metrics", description="Cells in, kept, refused and left out (they add up)."
        ),
    },
    deps=[concept_files],
)
def read_concepts(concepts: dg.ResourceParam[ConceptsParams]) -> Iterator[dg.Output]:
    """Items with concepts of any known layout; none is lost."""
    from preflow.concepts.celeba import Code
    from preflow.concepts.loading import load_concepts

    code = concepts.celeba
    data = load_concepts(
        concepts.path if concepts.dataset == "folder" else concepts.dataset,
        seed=concepts.seed,
        image_side=concepts.image_side,
        min_classes=concepts.min_classes,
        code=Code(code.concepts, code.hidden) if code else None,
        one_in=code.one_in if code else 1,
    )
    yield dg.Output(data.items.lazy(), "concept_items")
    yield dg.Output(data.concepts.lazy(), "concept_names")
    yield dg.Output(data.labels.lazy(), "concept_labels")
    yield dg.Output(data.quarantine.lazy(), "concept_quarantine")
    yield dg.Output(data.counts, "concept_intake")


@dg.multi_asset(
    outs={
        "noisy_concept_labels": _table(NoisyConceptLabels, "What models learn from: labels of train and validation."),
        "true_concept_labels": _table(TrueConceptLabels, "The labels before noise, for measuring alone.", truth=True),
    }
)
def plant_concept_noise(
    concept_items: pl.LazyFrame,
    concept_names: pl.LazyFrame,
    concept_labels: pl.LazyFrame,
    concepts: dg.ResourceParam[ConceptsParams],
) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Flips of a known kind in train and validation, and the truth apart from them."""
    from preflow.concepts.noise import plant_noise

    tables = (table.collect() for table in (concept_items, concept_names, concept_labels))
    noisy, truth = plant_noise(*tables, **concepts.noise.model_dump(), seed=concepts.seed)
    return noisy.lazy(), truth.lazy()


@dg.multi_asset(
    outs={
        "concept_bottleneck_model": dg.AssetOut(
            io_manager_key="model",
            description="For each loss and seed the model with the lambda that noisy validation chose.",
            kinds={"torch"},
        ),
        "concept_runs": _table(ConceptRuns, "Every loss, lambda, seed and checkpoint, and which of them are chosen."),
        "concept_predictions": _table(ConceptPredictions, "What every model says of every item."),
    },
    pool="gpu",
)
def train_bottlenecks(
    concept_items: pl.LazyFrame,
    concept_names: pl.LazyFrame,
    noisy_concept_labels: pl.LazyFrame,
    concepts: dg.ResourceParam[ConceptsParams],
) -> Iterator[dg.Output]:
    """Concept bottlenecks of every loss over the same grid of loss weights, on noisy labels alone."""
    import torch

    from preflow.concepts.sweep import sweep

    torch.set_num_threads(concepts.threads)
    found = sweep(
        concept_items.collect(),
        concept_names.collect(),
        noisy_concept_labels.collect(),
        [one.loss() for one in concepts.losses],
        concepts.bottleneck.recipe(),
        lambdas=concepts.lambdas,
        seeds=concepts.seeds,
    )
    yield dg.Output(found.models, "concept_bottleneck_model")
    yield dg.Output(found.runs.lazy(), "concept_runs")
    yield dg.Output(found.predictions.lazy(), "concept_predictions")


@dg.multi_asset(
    outs={
        "doubted_concept_labels": _table(
            DoubtedLabels, "Every label of train with P(it is wrong), most doubted first."
        ),
        "concept_flip_rates": _table(FlipRates, "How noisy the labels of each concept seem."),
    },
    pool="gpu",
)
def doubt_concept_labels(
    concept_items: pl.LazyFrame,
    concept_names: pl.LazyFrame,
    noisy_concept_labels: pl.LazyFrame,
    concepts: dg.ResourceParam[ConceptsParams],
) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Cleaner labels for those who want no more: the posterior of models that have not seen the label."""
    import torch

    from preflow.concepts.doubts import doubted_labels
    from preflow.concepts.recipe import Setting

    torch.set_num_threads(concepts.threads)
    doubted, rates = doubted_labels(
        concept_items.collect(),
        concept_names.collect(),
        noisy_concept_labels.collect(),
        Setting(concepts.doubts.loss.loss(), concepts.doubts.weight),
        concepts.bottleneck.recipe(),
        folds=concepts.doubts.folds,
        seed=concepts.seed,
    )
    return doubted.lazy(), rates.lazy()


@dg.multi_asset(
    outs={
        "concept_scores": _table(ConceptScores, "Every run measured against the truth."),
        "concept_report": dg.AssetOut(
            io_manager_key="metrics",
            description="Each loss with the lambda it would be used with, paired tests, and what the doubts found.",
        ),
        "concept_front": dg.AssetOut(io_manager_key="plot", description="Task accuracy against concept AUC."),
        "concept_interventions": dg.AssetOut(
            io_manager_key="plot", description="Task accuracy after concepts are corrected."
        ),
    }
)
def measure_concepts(
    concept_items: pl.LazyFrame,
    concept_names: pl.LazyFrame,
    noisy_concept_labels: pl.LazyFrame,
    true_concept_labels: pl.LazyFrame,
    concept_runs: pl.LazyFrame,
    concept_predictions: pl.LazyFrame,
    concept_bottleneck_model: Path,
    doubted_concept_labels: pl.LazyFrame,
    concept_flip_rates: pl.LazyFrame,
) -> Iterator[dg.Output]:
    """What the models and the doubts are worth, against the truth."""
    from preflow.charts import concept_front, intervention_lines
    from preflow.concepts.measured import concept_report, concept_scores, intervention_curves
    from preflow.concepts.sweep import load_bottlenecks

    items, noisy, truth = (t.collect() for t in (concept_items, noisy_concept_labels, true_concept_labels))
    scores = concept_scores(
        concept_runs.collect(), concept_predictions.collect(), items, concept_names.collect(), noisy, truth
    )
    report = concept_report(scores, truth, doubted_concept_labels.collect(), concept_flip_rates.collect())
    curves = intervention_curves(load_bottlenecks(concept_bottleneck_model), items, noisy, truth)
    yield dg.Output(scores.lazy(), "concept_scores")
    yield dg.Output(report | {"interventions": curves.to_dicts()}, "concept_report")
    yield dg.Output(concept_front(pl.DataFrame(report["front"]), baseline=report["baseline"]), "concept_front")
    yield dg.Output(intervention_lines(curves, baseline=report["baseline"]), "concept_interventions")
