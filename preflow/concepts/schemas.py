"""The tables of concepts: items with their classes, which concepts each shows, and every cell that was refused.

A cell is what a source states of one item and one concept. It is kept as a row of `ConceptLabels`, refused as a row of
`ConceptQuarantine`, or left out by a choice of concepts or items that the caller made; `ConceptData` counts them.
"""

from dataclasses import dataclass
from typing import Any

import dataframely as dy
import polars as pl

from preflow.schemas import hash_column, split_column
from preflow.store import content_key

LEVELS = ("class", "item")
RAW_LENGTH = 200


def item_id_column(*, primary_key: bool = True) -> dy.String:
    """The key of an item."""
    return hash_column("Hash of the source and the item's name in it.", primary_key=primary_key)


def concept_column() -> dy.String:
    """A concept within the key of a cell."""
    return dy.String(primary_key=True, min_length=1, description="Name of the concept.")


class ConceptItems(dy.Schema):
    """One row per item: what a model sees, and its class."""

    item_id = item_id_column()
    source = dy.String(min_length=1, description="Name of the data set.")
    name = dy.String(min_length=1, description="File or row within the source.")
    label = dy.String(min_length=1, description="The class.")
    split = split_column()
    features = dy.List(dy.Float32(), nullable=True, description="Numbers, in the units of the source.")
    image = dy.Binary(nullable=True, description="PNG bytes, grey or RGB, of one size within a source.")

    @dy.rule()
    def features_or_image(cls) -> pl.Expr:
        """An item is seen in exactly one way."""
        return pl.col("features").is_null() != pl.col("image").is_null()


class Concepts(dy.Schema):
    """One row per concept."""

    concept = concept_column()
    group = dy.String(nullable=True, description="Concepts of which one usually excludes the others, or of one kind.")
    level = dy.Enum(LEVELS, description="class: all items of a class share it; item: it differs within a class.")
    description = dy.String(nullable=True, description="What its presence means.")


class ConceptLabels(dy.Schema):
    """One row per labelled cell, as the source has it."""

    item_id = item_id_column()
    concept = concept_column()
    value = dy.Bool(description="Whether the concept is present.")
    certainty = dy.Int8(
        nullable=True, min=1, max=4, description="1 not visible, 2 guessing, 3 probably, 4 definitely (CUB)."
    )
    probability = dy.Float64(min=0, max=1, description="Soft label; value as 0 or 1 where there is no certainty.")
    annotator = dy.String(nullable=True, description="Who labelled the cell, where known.")


class ConceptQuarantine(dy.Schema):
    """One row per refused cell, and per refused line of a file that holds no cells."""

    source_file = dy.String(min_length=1, description="File that holds the cell or line.")
    source_line = dy.Int64(nullable=True, min=0, description="Line from 1; 0 for the file as a whole.")
    item = dy.String(nullable=True, description="The item as the file names it, where it does.")
    concept = dy.String(nullable=True, description="The concept, where it is known.")
    reason = dy.String(regex="^[a-z0-9_]+$", description="Named reason.")
    raw = dy.String(description="What stood there, cut at 200 characters.")


class NoisyConceptLabels(dy.Schema):
    """What models learn from: the cells of train and validation, some of them flipped."""

    item_id = item_id_column()
    concept = concept_column()
    value = dy.Bool(description="The label, flipped or not.")


class TrueConceptLabels(dy.Schema):
    """The labels before noise, of every split. No training code may read them."""

    item_id = item_id_column()
    concept = concept_column()
    value = dy.Bool(description="The label before noise.")
    flipped = dy.Bool(description="Whether NoisyConceptLabels has the opposite.")


class ConceptRuns(dy.Schema):
    """One row per trained model and checkpoint: what was trained and how, and nothing measured against the truth."""

    run = dy.Int64(primary_key=True, min=0, description="Number of the run and checkpoint.")
    method = dy.String(min_length=1, description="The loss with the settings that tell it from others of its name.")
    loss = dy.String(min_length=1, description="Name of the loss.")
    lambda_ = dy.Float64(alias="lambda", min=0, description="Weight of the concept loss beside the label loss.")
    beta = dy.Float64(nullable=True, min=0, description="Of CPO: strength of the preference.")
    reduction = dy.String(min_length=1, description="How per-concept losses become one number: mean or sum.")
    samples = dy.Int64(min=0, description="Samples of the policy per item; 0: the expectation.")
    mode = dy.String(min_length=1, description="joint, sequential or independent.")
    seed = dy.Int64(min=0, description="Seed of start, order and samples.")
    checkpoint = dy.Enum(["best", "last"], description="The best on noisy validation, or the last.")
    validation_score = dy.Float64(description="(Concept AUC + task accuracy) / 2 against noisy validation labels.")
    chosen = dy.Bool(description="Whether its lambda has the best validation score of its method, seed and checkpoint.")


class ConceptPredictions(dy.Schema):
    """One row per run and item of any split."""

    run = dy.Int64(primary_key=True, min=0, description="Number of the run and checkpoint.")
    item_id = item_id_column()
    concept_logits = dy.List(dy.Float32(), description="Logit of each concept, in the order of their names.")
    class_logits = dy.List(dy.Float32(), description="Logit of each class, in the order of their names.")


class ConceptScores(ConceptRuns):
    """`ConceptRuns` measured against the truth: on test, and by heart-learned flips of train."""

    concept_auc = dy.Float64(min=0, max=1, description="AUROC of a concept on test, mean over concepts.")
    task_accuracy = dy.Float64(min=0, max=1, description="Share of test items whose class is right.")
    concept_ece = dy.Float64(
        min=0, max=1, description="Expected calibration error of the concept probabilities on test."
    )
    brier = dy.Float64(min=0, max=1, description="Mean squared error of the concept probabilities on test.")
    memorised = dy.Float64(
        nullable=True, min=0, max=1, description="Share of flipped train labels that the model predicts as flipped."
    )
    uncertainty = dy.Float64(min=0, description="Mean entropy of the concept probabilities on test, in nats.")


class DoubtedLabels(dy.Schema):
    """One row per labelled cell of train, those to look at first at the top."""

    item_id = item_id_column()
    concept = concept_column()
    value = dy.Bool(description="The recorded label.")
    p_wrong = dy.Float64(min=0, max=1, description="Estimated P(the label is wrong).")
    self_confidence = dy.Float64(
        min=0, max=1, description="Predicted P(recorded label), out of fold (confident learning)."
    )
    rank = dy.Int64(min=1, description="Place in the queue, from 1.")


class FlipRates(dy.Schema):
    """One row per concept: how noisy its labels seem."""

    concept = concept_column()
    cells = dy.Int64(min=0, description="Labelled cells of train.")
    flip_rate = dy.Float64(min=0, max=0.5, description="Estimated share of wrong labels, by the confident joint.")


@dataclass(frozen=True)
class ConceptData:
    """A data set of concepts, and an account of every cell of its source.

    Raises
    ------
    ValueError
        Cells are lost: those kept, refused and left out are not all.
    """

    items: pl.DataFrame
    concepts: pl.DataFrame
    labels: pl.DataFrame
    quarantine: pl.DataFrame
    cell_file: str
    """The file that holds the cells: its rows in the quarantine are refused cells, all others are not."""
    cells: int
    """Cells in the source."""
    left_out: int
    """Well-formed cells of concepts or items that the caller did not ask for."""

    def __post_init__(self) -> None:
        kept, refused = len(self.labels), self.refused_cells
        if kept + refused + self.left_out != self.cells:
            raise ValueError(
                f"{self.cell_file}: of {self.cells} cells {kept} are kept, {refused} refused and {self.left_out} left "
                "out: some are lost or counted twice, which is an error of the loader; please report it"
            )

    @property
    def counts(self) -> dict[str, Any]:
        """Items by split, and the account of the cells."""
        by_split = self.items.group_by(pl.col("split").cast(pl.String)).len().sort("split")
        reasons = self.quarantine.group_by("reason").len().sort("reason")
        return {
            "items": dict(by_split.iter_rows()),
            "classes": self.items["label"].n_unique(),
            "concepts": len(self.concepts),
            "cells": {
                "in": self.cells, "kept": len(self.labels), "refused": self.refused_cells, "left_out": self.left_out
            },
            "quarantine": dict(reasons.iter_rows()),
        }  # fmt: skip

    @property
    def refused_cells(self) -> int:
        """Cells in the quarantine."""
        return self.quarantine.filter(pl.col("source_file") == self.cell_file).height


def concept_data(
    source: str, items: pl.DataFrame, concepts: pl.DataFrame, cells: pl.DataFrame,
    *, item_file: str, cell_file: str, refused: pl.DataFrame, left_out: int,
) -> ConceptData:  # fmt: skip
    """Judge every cell and give it its place; tables are in the order of the source.

    Parameters
    ----------
    items
        `key` (as the cells name the item; unique), `line`, `name`, `label`, `split`, `features`, `image` and `reason`,
        which is not null for a refused item.
    cells
        `line`, `item` (an item's key), `concept`, `value`, `certainty`, `probability`, `annotator`, `raw` and `reason`,
        which is null for a good cell. Cells of unknown or refused items and repeated ones get theirs here.
    refused
        `ConceptQuarantine` of lines that are no cells.
    left_out
        Well-formed cells that `cells` no longer has, as the caller did not ask for them.
    """
    ids = [content_key(source, name) for name in items["name"]]
    items = items.with_columns(item_id=pl.Series(ids, dtype=pl.String), source=pl.lit(source))
    good, bad = _judged(cells, items)
    fault = pl.col("reason").is_not_null()
    unusable = items.filter(fault).with_columns(concept=pl.lit(None, dtype=pl.String), raw=pl.col("name"))
    return ConceptData(
        items=ConceptItems.cast(items.filter(~fault)),
        concepts=Concepts.cast(concepts),
        labels=ConceptLabels.cast(good),
        quarantine=pl.concat(
            [
                quarantine(bad, cell_file),
                quarantine(unusable.with_columns(item=pl.col("name")), item_file),
                ConceptQuarantine.cast(refused),
            ]
        ),
        cell_file=cell_file,
        cells=len(cells) + left_out,
        left_out=left_out,
    )


def quarantine(rows: pl.DataFrame, source_file: str) -> pl.DataFrame:
    """`ConceptQuarantine` of rows with `line`, `item`, `concept`, `reason` and `raw`."""
    raw = pl.col("raw").fill_null("").str.slice(0, RAW_LENGTH)
    return ConceptQuarantine.cast(
        rows.with_columns(source_file=pl.lit(source_file), source_line=pl.col("line"), raw=raw)
    )


def _judged(cells: pl.DataFrame, items: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Good cells with the `item_id` of their item, and bad ones with a reason; both in the order given."""
    about = items.select("item_id", item="key", of_item="reason")
    found = cells.join(about, on="item", how="left", maintain_order="left")
    unknown = pl.when(pl.col("item_id").is_null()).then(pl.lit("unknown_item"))
    found = found.with_columns(reason=pl.coalesce("reason", unknown, "of_item"))
    good, bad = (found.filter(pl.col("reason").is_null() == is_good) for is_good in (True, False))
    first = good.select(pl.struct("item_id", "concept").is_first_distinct()).to_series()
    again = good.filter(~first).with_columns(reason=pl.lit("duplicate_cell"))
    return good.filter(first), pl.concat([bad, again])
