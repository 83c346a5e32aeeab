"""A two-stage family that runs in no time: a text file of integers, and their doubles."""

import time
from collections.abc import Iterator

import dagster as dg
import dataframely as dy
import polars as pl
from dagster import MetadataValue as Meta

from preflow.params import Params


class NumbersParams(Params):
    """Section `numbers`."""

    path: str
    """Text file, one integer a line."""
    factor: int
    """What every number is multiplied by."""
    seconds: float
    """How long a stage pretends to work between its first and its last output."""


class Numbers(dy.Schema):
    """One row per number."""

    line = dy.Int64(primary_key=True, min=1, description="Line of the file, from 1.")
    value = dy.Int64(min=0, description="The number.")


numbers_file = dg.AssetSpec("numbers_file", description="The user's file.", metadata={"path": "${numbers.path}"})


@dg.multi_asset(
    outs={
        "number_rows": dg.AssetOut(io_manager_key="table", metadata={"schema": Meta.python_artifact(Numbers)}),
        "number_counts": dg.AssetOut(io_manager_key="metrics"),
    },
    deps=[numbers_file],
)
def read_numbers(numbers: dg.ResourceParam[NumbersParams]) -> Iterator[dg.Output]:
    """The numbers of the file, and how many they are."""
    with open(numbers.path) as file:  # noqa: PTH123
        values = [int(line) for line in file]
    frame = pl.LazyFrame(
        {"line": range(1, len(values) + 1), "value": values}, schema={"line": pl.Int64, "value": pl.Int64}
    )
    yield dg.Output(frame, "number_rows")
    time.sleep(numbers.seconds)
    yield dg.Output({"rows": len(values), "sum": sum(values)}, "number_counts")


@dg.asset(io_manager_key="table", metadata={"schema": Meta.python_artifact(Numbers)}, kinds={"polars"})
def doubled(number_rows: pl.LazyFrame, numbers: dg.ResourceParam[NumbersParams]) -> pl.LazyFrame:
    """Every number times the factor."""
    return number_rows.with_columns(pl.col("value") * numbers.factor)
