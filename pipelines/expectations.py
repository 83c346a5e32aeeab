"""Great Expectations suites, derived from the declared schemas.

Great Expectations works through pandas and would mistake nulls for valid values, an empty table for a good one, list
columns for unique ones and nullable integers for floats. So it is given a prepared frame: keys, enumerations and
numbers as they are, text as its length, lists as their number of items, row rules as booleans, and it is told of nulls
and of the row count in expectations of their own.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dataframely as dy
import polars as pl
from dataframely._rule import Rule

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.data_context import EphemeralDataContext

OFFENDERS = 10  # how many offending rows a failed expectation names


def validate(frame: pl.LazyFrame, schema: type[dy.Schema], *, name: str, may_be_empty: bool) -> dict[str, Any]:
    """Verdict on a table: Great Expectations' validation result as plain JSON, without times or run ids.

    Raises
    ------
    TypeError
        The columns or their types are not the declared ones: a fault of the asset's code, not of its data.
    RuntimeError
        An expectation could not be evaluated: the fault is in the suite or its engine, not in the data.
    """
    check_columns(frame, schema, name=name)
    context = ephemeral_context()
    import great_expectations as gx

    wanted = expectations(schema, may_be_empty=may_be_empty)
    suite = gx.ExpectationSuite(name, expectations=[getattr(gx.expectations, kind)(**args) for kind, args in wanted])
    asset = context.data_sources.add_pandas("preflow").add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": prepare(frame, schema)})
    named_by = {"unexpected_index_column_names": keys} if (keys := schema.primary_key()) else {}
    form = {"result_format": "SUMMARY", "partial_unexpected_count": OFFENDERS, **named_by}
    result = batch.validate(suite, result_format=form).to_json_dict()
    for checked in result["results"]:
        if checked["exception_info"].get("raised_exception", True):
            raise RuntimeError(f"{name}: {checked['expectation_config']['type']} raised {checked['exception_info']}")
    result["meta"] = {"great_expectations_version": gx.__version__}
    if result["success"] and (broken := _broken_rules(frame, schema)):
        result["success"] = False
        result["results"].append(_broken_result(broken))
    return result


def ephemeral_context() -> "EphemeralDataContext":
    """A silent Great Expectations context that leaves nothing behind; importing it costs seconds of CPU."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context


def check_columns(frame: pl.LazyFrame, schema: type[dy.Schema], *, name: str) -> None:
    """Raise TypeError where a frame's columns or types differ from the declared ones."""
    found, declared = frame.collect_schema(), {n: c.dtype for n, c in schema.columns().items()}
    for column in [*declared, *(set(found) - set(declared))]:
        if found.get(column) != declared.get(column):
            raise TypeError(
                f"table {name}, column {column}: {schema.__name__} declares {declared.get(column, 'no such column')}, "
                f"the frame has {found.get(column, 'no such column')}"
            )


def _broken_rules(frame: pl.LazyFrame, schema: type[dy.Schema]) -> str:
    """What dataframely's own check finds where no expectation reaches (inside lists, the length of a key); or ""."""
    try:
        schema.validate(frame).select(pl.len()).collect()
    except pl.exceptions.ComputeError as error:
        return str(error)
    return ""


def _broken_result(broken: str) -> dict[str, Any]:
    """The finding of the strict check in the form of an expectation's result."""
    return {
        "success": False,
        "expectation_config": {"type": "strict_schema", "kwargs": {}, "meta": {}, "severity": "critical"},
        "result": {"observed_value": broken},
        "meta": {},
        "exception_info": {"raised_exception": False, "exception_traceback": None, "exception_message": None},
    }


def failures(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """The failed expectations: which, on which column, how many rows, and up to ten offending keys or values."""
    return [
        {
            "expectation": result["expectation_config"]["type"],
            "column": _column(result["expectation_config"]["kwargs"]),
            "rows": result["result"].get("unexpected_count"),
            "offending": result["result"].get("partial_unexpected_index_list")
            or result["result"].get("partial_unexpected_list")
            or result["result"].get("observed_value"),
        }
        for result in verdict["results"]
        if not result["success"]
    ]


def _column(arguments: dict[str, Any]) -> str:
    named = arguments.get("column") or ", ".join(arguments.get("column_list", []))
    return named or "the table"


def prepare(frame: pl.LazyFrame, schema: type[dy.Schema]) -> "pd.DataFrame":
    """The pandas frame that Great Expectations sees."""
    import pandas as pd

    rules = [rule.expr.fill_null(value=True).alias(f"rule {name}") for name, rule in _row_rules(schema).items()]
    table = frame.select(*(_prepared(name, column) for name, column in schema.columns().items()), *rules).collect()
    prepared = table.to_pandas()
    for name, dtype in table.schema.items():
        if dtype.is_integer():  # through numpy a null would turn the column into floats
            prepared[name] = pd.array(table[name].to_list(), dtype="Int64")
    return prepared


def _prepared(name: str, column: dy.Column) -> pl.Expr:
    if isinstance(column, dy.List):
        return pl.col(name).list.len().cast(pl.Int64)
    if isinstance(column, dy.String) and not _kept_as_text(column):
        return pl.col(name).str.len_chars().cast(pl.Int64)
    if isinstance(column, dy.Enum):
        return pl.col(name).cast(pl.String)
    return pl.col(name)


def _kept_as_text(column: dy.String) -> bool:
    return column.primary_key or column.unique or column.regex is not None


def expectations(schema: type[dy.Schema], *, may_be_empty: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Class name and arguments of every expectation that follows from a schema."""
    rules = [f"rule {name}" for name in _row_rules(schema)]
    yield "ExpectTableColumnsToMatchSet", {"column_set": [*schema.column_names(), *rules], "exact_match": True}
    if not may_be_empty:
        yield "ExpectTableRowCountToBeBetween", {"min_value": 1}
    keys = schema.primary_key()
    if len(keys) > 1:
        yield "ExpectCompoundColumnsToBeUnique", {"column_list": keys}
    for name, column in schema.columns().items():
        yield from _column_expectations(name, column, sole_key=keys == [name])
    for rule in rules:
        yield "ExpectColumnValuesToBeInSet", {"column": rule, "value_set": [True]}


def _column_expectations(name: str, column: dy.Column, *, sole_key: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    if not column.nullable:
        yield "ExpectColumnValuesToNotBeNull", {"column": name}
    if sole_key or column.unique:
        yield "ExpectColumnValuesToBeUnique", {"column": name}
    if isinstance(column, dy.Enum):
        yield "ExpectColumnValuesToBeInSet", {"column": name, "value_set": list(column.categories)}
    if isinstance(column, dy.String) and column.regex is not None:
        yield "ExpectColumnValuesToMatchRegex", {"column": name, "regex": column.regex}
    low, high = _bounds(column)
    if low is not None or high is not None:
        yield "ExpectColumnValuesToBeBetween", {"column": name, "min_value": low, "max_value": high}


def _bounds(column: dy.Column) -> tuple[float | None, float | None]:
    """Bounds of a number, or of the length that stands for a text or a list."""
    if isinstance(column, dy.List):
        return column.min_length, column.max_length
    if isinstance(column, dy.String):
        return (None, None) if _kept_as_text(column) else (column.min_length, column.max_length)
    return getattr(column, "min", None), getattr(column, "max", None)


def _row_rules(schema: type[dy.Schema]) -> dict[str, Rule]:
    # dataframely has no public list of a schema's own rules.
    rules = schema._schema_validation_rules()
    return {name: rule for name, rule in rules.items() if type(rule) is Rule}
