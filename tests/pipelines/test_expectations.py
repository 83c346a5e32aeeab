"""The suites that follow from schemas: what Great Expectations would overlook by itself is found."""

import dataframely as dy
import polars as pl
import pytest

from pipelines.expectations import expectations, failures, prepare, validate

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:great_expectations.*")


class Ballots(dy.Schema):
    """A schema with everything that needs care: lists, nullable integers, text, an enumeration, rules."""

    voter = dy.String(primary_key=True, min_length=1)
    round = dy.Int64(primary_key=True, min=1)
    choice = dy.Enum(["a", "b"])
    weight = dy.Int64(nullable=True, min=0)
    reasons = dy.List(dy.String(), min_length=1)

    @dy.rule()
    def weight_only_for_a(cls) -> pl.Expr:
        """A rule of one row."""
        return (pl.col("choice") == "a") | pl.col("weight").is_null()

    @dy.rule()
    def one_choice_a_voter(cls) -> pl.Expr:
        """A rule over groups."""
        return pl.col("choice").n_unique().over("voter") == 1


GOOD = Ballots.cast(
    pl.DataFrame(
        {
            "voter": ["x", "x", "y"],
            "round": [1, 2, 1],
            "choice": ["a", "a", "b"],
            "weight": [2**53 + 1, None, None],
            "reasons": [["r"], ["r"], ["s", "t"]],
        }
    )
)


def found(frame: pl.DataFrame, *, may_be_empty: bool = False) -> list[tuple[str, str]]:
    verdict = validate(frame.lazy(), Ballots, name="ballots", may_be_empty=may_be_empty)
    broken = failures(verdict)
    assert verdict["success"] == (not broken)
    return [(failure["expectation"], failure["column"]) for failure in broken]


def test_a_good_table_passes() -> None:
    assert found(GOOD) == []


@pytest.mark.parametrize(
    ("column", "values", "broken"),
    [
        ("round", [1, 1, 1], ("expect_compound_columns_to_be_unique", "voter, round")),
        ("round", [1, 0, 1], ("expect_column_values_to_be_between", "round")),
        ("choice", ["a", None, "b"], ("expect_column_values_to_not_be_null", "choice")),
        ("reasons", [["r"], [], ["s"]], ("expect_column_values_to_be_between", "reasons")),
        ("weight", [1, None, 1], ("expect_column_values_to_be_in_set", "rule weight_only_for_a")),
        ("choice", ["a", "b", "b"], ("expect_column_values_to_be_in_set", "rule one_choice_a_voter")),
        ("voter", ["x", "x", ""], ("strict_schema", "the table")),
        ("reasons", [["r"], ["r"], [None]], ("strict_schema", "the table")),
    ],
)
def test_what_is_broken_is_named(column: str, values: list, broken: tuple[str, str]) -> None:
    series = pl.Series(column, values, dtype=GOOD.schema[column], strict=False)
    assert broken in found(GOOD.with_columns(series))


def test_an_empty_table_passes_only_where_it_may() -> None:
    assert found(GOOD.clear()) == [("expect_table_row_count_to_be_between", "the table")]
    assert found(GOOD.clear(), may_be_empty=True) == []


def test_integers_beside_nulls_stay_exact_and_lists_become_lengths() -> None:
    """Through numpy, 2**53 + 1 beside a null would lose its last digit; lists would be compared as objects."""
    frame = prepare(GOOD.lazy(), Ballots)
    assert frame["weight"][0] == 2**53 + 1
    assert frame["weight"].isna().tolist() == [False, True, True]
    assert frame["reasons"].tolist() == [1, 1, 2]


def test_a_wrong_column_is_a_fault_of_the_code() -> None:
    with pytest.raises(TypeError, match="column round: Ballots declares Int64, the frame has String"):
        found(GOOD.with_columns(pl.col("round").cast(pl.String)))
    with pytest.raises(TypeError, match="column weight: Ballots declares Int64, the frame has no such column"):
        found(GOOD.drop("weight"))


def test_every_column_and_row_rule_has_an_expectation() -> None:
    covered = {arguments.get("column") for _, arguments in expectations(Ballots, may_be_empty=False)}
    assert {"round", "choice", "weight", "reasons", "rule weight_only_for_a"} <= covered
