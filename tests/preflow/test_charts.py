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


def test_bars_of_two_series_stand_side_by_side_within_their_bin():
    spec = charts.histogram({"a": pl.Series([1.0, 2.0]), "b": pl.Series([2.0, 2.0])}, x_title="x", description="d")
    bars = [(row["series"], row["from"], row["to"]) for row in values_of(spec)]
    assert [name for name, *_ in sorted(bars, key=lambda bar: bar[1])] == ["a", "b", "a", "b"]
    for name, left, right in bars:
        centre = round((left + right) / 2)
        assert centre - 0.5 < left < right < centre + 0.5
        assert (right <= centre) == (name == "a")


def test_reliability_intervals_hold_their_points_and_the_diagonal_meets_the_corners():
    bins = pl.DataFrame({"predicted": [0.55, 0.75], "observed": [0.5, 0.9], "count": [10, 1000]})
    spec = charts.reliability_diagram(bins)
    corners = [row for row in values_of(spec) if "p" in row] or spec["layer"][0]["data"]["values"]
    low, high = corners
    few, many = [row for row in values_of(spec) if "predicted" in row]
    assert few["low"] == pytest.approx(0.2366, abs=1e-4)  # Wilson, 5 of 10
    assert many["low"] < many["observed"] < many["high"]
    assert many["high"] - many["low"] < few["high"] - few["low"]
    assert low["p"] == low["q"] <= few["low"]
    assert high["p"] == high["q"] >= many["high"]


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


def comparison(**lists):
    return {"judges": ["gold", "reward"], "contrasts": [], "goal_curve": [], **lists}


def contrast(treatment, difference, *, separable, judge="gold", baseline="untreated"):
    ends = {"difference_low": difference - 0.2, "difference_high": difference + 0.2, "separable": separable}
    return {"judge": judge, "treatment": treatment, "baseline": baseline, "difference": difference, **ends}


def test_greatest_difference_comes_first_and_what_is_not_separable_is_grey():
    rows = [
        contrast("hardest_share", -0.5, separable=True),
        contrast("gold_filtered", 0.1, separable=False),
        contrast("gold_filtered", 9.0, separable=True, judge="reward"),
        contrast("hardest_share", 9.0, separable=True, baseline="random_share"),
    ]
    spec = charts.treatment_differences(comparison(contrasts=rows))
    assert spec["layer"][1]["encoding"]["y"]["sort"] == ["gold filtered", "hardest share"]
    assert charts.BLUE in charts.to_svg(spec)
    unclear = charts.treatment_differences(comparison(contrasts=rows[1:]))
    assert charts.BLUE not in charts.to_svg(unclear)
    assert charts.GREY in charts.to_svg(unclear)


def test_goals_are_drawn_in_colour_for_those_that_know_them_and_in_grey_for_the_controls():
    rows = [
        {"judge": "gold", "treatment": name, "goal": goal, "mean": 3.0, "mean_low": 2.0, "mean_high": 4.0}
        for name in ("untreated", "reward_augmented", "start", "easiest_share_augmented")
        for goal in (10.0, 4.0)
    ]
    spec = charts.treatment_goal_control(comparison(goal_curve=rows))
    scale = spec["layer"][0]["encoding"]["color"]["scale"]
    hues = dict(zip(scale["domain"], scale["range"], strict=True))
    assert {hues["reward augmented"], hues["easiest share augmented"]} == {charts.BLUE, charts.ORANGE}
    assert {name: hues[name] for name in charts.CONTROL_HUES} == charts.CONTROL_HUES
    assert spec["layer"][0]["encoding"]["x"]["axis"]["values"] == [4.0, 10.0]
    assert charts.to_svg(spec) == charts.to_svg(spec)


def test_share_that_was_picked_is_marked():
    curve = [{"share": share, "accuracy": 0.7, "low": 0.68, "high": 0.72} for share in (1.0, 0.5)]
    spec = charts.accuracy_by_share({"share": 0.5, "curve": curve})
    assert [(row["share"], row["picked"]) for row in values_of(spec)] == [(0.5, True), (1.0, False)]
    assert charts.BLUE in charts.to_svg(spec)


def test_what_was_not_measured_is_said_in_place_of_the_picture():
    for drawn in (charts.treatment_differences, charts.treatment_goal_control):
        assert "no policy was trained" in charts.to_svg(drawn({"not_measured": "no policy was trained"}))
        assert ">no " in charts.to_svg(drawn(comparison()))
    assert "no pair was ranked" in charts.to_svg(charts.accuracy_by_share({"share": None, "curve": []}))


def test_rewards_without_an_accuracy_are_left_out_and_none_is_said():
    interval = {"estimate": 0.7, "low": 0.6, "high": 0.8}
    own = {"rewards": {"baseline": {"accuracy": interval}, "mute": {"accuracy": None}}}
    drawn = charts.to_svg(charts.reward_accuracy(own))
    assert "baseline" in drawn
    assert "mute" not in drawn
    assert "no reward read enough" in charts.to_svg(charts.reward_accuracy({"rewards": {"mute": {"accuracy": None}}}))
