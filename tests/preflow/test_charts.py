import polars as pl
import pytest

from preflow import charts


def values_of(spec):
    """The rows that a spec draws, layers taken together."""
    rows = [row for data in spec["datasets"].values() for row in data]
    assert rows
    return rows


@pytest.fixture
def pairs():
    return pl.DataFrame(
        {
            "chosen": ["long answer " * 9, "b", "ccc"],
            "rejected": ["a", "bb", "ccc!"],
            "score_chosen": [4.0, 3.0, None],
            "score_rejected": [1.0, 4.0, None],
            "margin": [3.0, -1.0, None],
        }
    )


def test_shares_of_each_series_sum_to_one_without_the_nulls(pairs):
    rows = values_of(charts.score_distribution(pairs))
    for side in ("chosen", "rejected"):
        assert sum(row["share"] for row in rows if row["series"] == side) == pytest.approx(1)
    # whole numbers get a bin each: 1, 2, 3 and 4, and rejected has one 1 and one 4
    assert [row["share"] for row in rows if row["series"] == "rejected"] == [0.5, 0, 0, 0.5]


@pytest.mark.parametrize("series", [[], [2.5], [7.0, 7.0], [0.1, 0.2], [-1e9, 1e9]])
def test_histogram_draws_any_values(series):
    spec = charts.histogram({"pairs": pl.Series(series, dtype=pl.Float64)}, x_title="x", description="d")
    assert sum(row["share"] for row in values_of(spec)) == pytest.approx(1 if series else 0)
    assert charts.to_svg(spec).startswith("<svg")


def test_entropy_leaves_out_single_votes():
    summary = pl.DataFrame({"n_votes": [1, 3, 3, 5], "entropy": [0.0, 0.0, 0.58, 0.61]})
    rows = values_of(charts.entropy_histogram(summary))
    assert rows[0]["share"] == pytest.approx(1 / 3)


def test_annotators_without_a_comparison_are_not_drawn_and_the_best_comes_first():
    frame = pl.DataFrame(
        {
            "annotator": ["low", "unknown", "high"],
            "n_votes": [9, 99, 8],
            "agreement": [0.6, None, 0.9],
            "agreement_low": [0.5, None, 0.8],
            "agreement_high": [0.7, None, 0.95],
        }
    )
    spec = charts.annotator_quality(frame)
    assert {row["annotator"] for row in values_of(spec)} == {"low", "high"}
    assert spec["layer"][0]["encoding"]["y"]["sort"] == ["high", "low"]


def test_specs_and_drawings_repeat_to_the_same_bytes_and_stay_offline(pairs):
    bins = pl.DataFrame({"predicted": [0.2, 0.8], "observed": [0.3, 0.7], "count": [5, 9]})
    reasons = pl.DataFrame({"reason": ["empty_response", "wrong_type"], "rows": [3, 3]})

    def drawn():
        specs = [charts.reliability_diagram(bins), charts.length_distribution(pairs), charts.reasons_bar(reasons)]
        return [charts.to_svg(spec) for spec in specs]

    drawings = drawn()
    assert drawings == drawn()
    for svg in drawings:
        assert "http" not in svg.replace("http://www.w3.org/", "")


def test_markup_in_a_label_is_escaped():
    reasons = pl.DataFrame({"reason": ["<script>alert(1)</script>"], "rows": [1]})
    assert "<script" not in charts.to_svg(charts.reasons_bar(reasons))
