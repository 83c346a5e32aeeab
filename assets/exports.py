"""Training data in the form that trainers read."""

import dagster as dg
import polars as pl
from pydantic import Field

from preflow.exports import PreferenceDataset, dataset_card, export_splits
from preflow.params import Params


class ExportsParams(Params):
    """Section `exports`: what the dataset card says."""

    name: str = Field(min_length=1)
    """Name of the dataset."""
    licence: str = Field(min_length=1)
    """Licence of the feedback, which only its owner knows; an identifier such as cc-by-4.0, or unknown."""


@dg.asset(io_manager_key="dataset", kinds={"polars"})
def training_data(preference_pairs: pl.LazyFrame, exports: dg.ResourceParam[ExportsParams]) -> PreferenceDataset:
    """Train, validation and test in TRL's conversational format, as parquet and jsonl, with a dataset card."""
    pairs = preference_pairs.collect()
    return PreferenceDataset(export_splits(pairs), dataset_card(pairs, name=exports.name, licence=exports.licence))
