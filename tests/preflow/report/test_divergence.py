import polars as pl

from preflow.reasons.schemas import DivergenceReasons, ReasonRemainders
from preflow.report.divergence import divergence
from preflow.report.page import render_page

CLASSES = {"preference": 6, "tie": 1, "diverging": 3, "residual": 0, "too_few_votes": 2, "substantial": 1}
COUNTS = {"all": CLASSES, "careful": CLASSES | {"diverging": 2, "residual": 1}, "n_groups": 2, "careless": 1}
IDS = [f"{n:032x}" for n in range(3)]


def reasons():
    rows = {"pair_id": IDS[:2], "source": "rule", "label": "verbosity", "class": "style", "evidence": "4 times as long"}
    return DivergenceReasons.cast(pl.DataFrame(rows).with_columns(probability=pl.lit(None, dtype=pl.Float64)))


def remainders():
    rows = {"pair_id": IDS, "source": "rule", "n_causes": [1, 1, 0], "unexplained": [0.0, 0.0, 1.0]}
    return ReasonRemainders.cast(pl.DataFrame(rows).with_columns(unreadable_answer=pl.lit(None, dtype=pl.String)))


def by_endpoint():
    rows = {"pair_id": IDS, "source": "endpoint", "n_causes": 0, "unexplained": 1.0}
    said = pl.Series([None, "I cannot", "Sure: verbosity"], dtype=pl.String)
    return ReasonRemainders.cast(pl.DataFrame(rows).with_columns(unreadable_answer=said))


def test_causes_and_what_stays_unexplained_are_shown():
    section = divergence(COUNTS, reasons(), remainders(), {"not_fitted": "there are too few votes"})
    assert section.finding == "30.0% of the comparisons diverge; 2 groups vote alike, careless annotators: 1."
    assert section.blocks[1].rows == [["verbosity", "2"], ["no cause found", "33.3% of 3"]]
    page = render_page("t", [], [section])
    assert "there are too few votes" in page
    assert "33.3% of 3" in page


def test_answers_of_a_language_model_that_could_not_be_read_are_counted():
    told = pl.concat([remainders(), by_endpoint()])
    section = divergence(COUNTS, reasons(), told, {"not_fitted": "there are too few votes"})
    assert section.blocks[1].columns == ["cause", "endpoint", "rule"]
    assert section.blocks[1].rows[1:] == [
        ["no cause found", "100.0% of 3", "33.3% of 3"],
        ["answer unreadable", "2", "0"],
    ]


def test_a_fitted_reward_is_compared_with_the_baseline():
    interval = {"estimate": 0.02, "low": 0.01, "high": 0.03}
    evaluation = {
        "not_fitted": None,
        "auroc": {"mean_variance_kl": 0.61, "bt_all": 0.59},
        "auroc_difference": interval,
        "accuracy_difference": interval,
        "accuracy_p": 0.5,
    }
    section = divergence(COUNTS, reasons(), remainders(), evaluation)
    assert "AUROC of 0.61" in section.blocks[2].text
    assert "difference 0.020 [0.010, 0.030]" in section.blocks[2].text
