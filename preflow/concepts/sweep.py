"""Concept bottlenecks of every loss, loss weight and seed, trained on noisy labels; nothing here has seen the truth."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from preflow.concepts.arrays import ConceptArrays, class_names, concept_arrays
from preflow.concepts.loss import ConceptLoss
from preflow.concepts.networks import Bottleneck, load_bottleneck
from preflow.concepts.recipe import Recipe, Setting
from preflow.concepts.schemas import ConceptPredictions, ConceptRuns
from preflow.concepts.stack import Stack
from preflow.concepts.study import named, needed_beside, with_chosen
from preflow.concepts.training import selection_score, train_bottlenecks
from preflow.schemas import SPLITS

CHECKPOINTS = ("best", "last")


@dataclass(frozen=True)
class Kept:
    """A model with the lambda that was chosen for its method and seed."""

    method: str
    seed: int
    weight: float
    model: Bottleneck

    @property
    def folder(self) -> str:
        """Where it is saved."""
        return f"{self.method.replace(', ', '_').replace(' ', '_')}/seed-{self.seed}"

    @property
    def about(self) -> dict[str, Any]:
        """What its folder says of it."""
        return {"method": self.method, "seed": self.seed, "lambda": self.weight}


@dataclass(frozen=True)
class Bottlenecks:
    """The chosen model of each method and seed, and what its concepts and classes are called."""

    kept: list[Kept]
    concepts: list[str]
    classes: list[str]

    def save_pretrained(self, folder: Path) -> None:
        """A folder a model, and `config.json` with the names and where the models are."""
        folder.mkdir(parents=True, exist_ok=True)
        models = [one.about | {"folder": one.folder} for one in self.kept]
        config = {"concepts": self.concepts, "classes": self.classes, "models": models}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        for one in self.kept:
            one.model.save_pretrained(folder / one.folder, about=one.about)


def load_bottlenecks(folder: Path) -> Bottlenecks:
    """Read what `Bottlenecks.save_pretrained` wrote."""
    config = json.loads((folder / "config.json").read_text())
    kept = [
        Kept(one["method"], one["seed"], one["lambda"], load_bottleneck(folder / one["folder"]))
        for one in config["models"]
    ]
    return Bottlenecks(kept, config["concepts"], config["classes"])


@dataclass(frozen=True)
class Sweep:
    """What a sweep made."""

    models: Bottlenecks
    runs: pl.DataFrame
    """`ConceptRuns`."""
    predictions: pl.DataFrame
    """`ConceptPredictions` of the items of every split."""


def sweep(
    items: pl.DataFrame, concepts: pl.DataFrame, noisy: pl.DataFrame, losses: Sequence[ConceptLoss], recipe: Recipe,
    *, lambdas: Sequence[float], seeds: Sequence[int],
) -> Sweep:  # fmt: skip
    """Train every loss with every lambda and seed on train, and choose the lambda of each on noisy validation.

    Parameters
    ----------
    items, concepts, noisy
        `ConceptItems`, `Concepts` and `NoisyConceptLabels`.
    """
    splits = {split: concept_arrays(items, noisy, concepts, split) for split in SPLITS}
    names, classes = concepts["concept"].sort().to_list(), class_names(items)
    settings = [Setting(loss, weight) for loss in losses for weight in lambdas]
    tables, predictions, kept, first = [], [], [], 0
    for seed in seeds:
        beside = needed_beside(splits["train"], splits["validation"], losses, recipe, classes=len(classes), seed=seed)
        trained = train_bottlenecks(
            splits["train"], splits["validation"], settings, recipe, classes=len(classes), seed=seed, beside=beside
        )
        stacks = dict(zip(CHECKPOINTS, (trained.best, trained.last), strict=True))
        runs = _runs(stacks, settings, splits["validation"], seed=seed, mode=recipe.mode, first=first)
        predictions += [
            _predicted(stacks[kind], splits, part["run"])
            for (kind,), part in runs.group_by("checkpoint", maintain_order=True)
        ]
        chosen = runs.with_row_index("place").filter("chosen", checkpoint="best").select("place", "method", "lambda")
        kept += [Kept(method, seed, weight, trained.best.one(place)) for place, method, weight in chosen.iter_rows()]
        tables.append(runs)
        first += len(runs)
    table = ConceptRuns.cast(pl.concat(tables))
    return Sweep(Bottlenecks(kept, names, classes), table, ConceptPredictions.cast(pl.concat(predictions)))


def _runs(
    stacks: dict[str, Stack], settings: list[Setting], validation: ConceptArrays, *, seed: int, mode: str, first: int
) -> pl.DataFrame:
    described = pl.DataFrame([named(setting) for setting in settings])
    parts = [
        described.with_columns(
            checkpoint=pl.lit(kind),
            validation_score=pl.Series(selection_score(stack.predict(validation), validation).numpy()),
        )
        for kind, stack in stacks.items()
    ]
    runs = pl.concat(parts).with_row_index("run", offset=first)
    return with_chosen(runs.with_columns(seed=pl.lit(seed), mode=pl.lit(mode)))


def _predicted(stack: Stack, splits: dict[str, ConceptArrays], runs: pl.Series) -> pl.DataFrame:
    """What each model says of each item: a row a run and item."""
    found = [stack.predict(arrays) for arrays in splits.values()]
    ids = [name for arrays in splits.values() for name in arrays.item_ids]
    concepts, classes = (torch.cat([getattr(one, part) for one in found], dim=1) for part in ("concepts", "classes"))
    return pl.concat(
        pl.DataFrame(
            {"item_id": ids, "concept_logits": _lists(concepts[place]), "class_logits": _lists(classes[place])}
        ).with_columns(run=pl.lit(run))
        for place, run in enumerate(runs)
    )


def _lists(values: Tensor) -> pl.Series:
    return pl.Series(values.numpy()).arr.to_list()
