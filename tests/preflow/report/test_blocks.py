import pytest

from preflow.report.blocks import NOTHING, FilterTable, Table, number


def test_columns_of_figures_are_told_from_columns_of_words():
    rows = [["careful", 12, "4.5%", "0.61 [0.5, 0.7]", NOTHING], ["12th", 1234, "\N{MINUS SIGN}0.2", "x", "0.3"]]
    assert Table(["who", "votes", "share", "interval", "gold"], rows).figures == [False, True, True, False, True]
    assert Table(["a", "b"], []).figures == [True, True]


@pytest.mark.parametrize(
    ("columns", "size"), [(["split", "pairs"], "small"), (["x" * 20] * 4, "medium"), (["x" * 20] * 6, "large")]
)
def test_table_takes_the_width_that_its_text_needs(columns, size):
    assert Table(columns, [columns]).size == size
    assert Table(columns, []).size == size


def test_negative_number_has_a_minus_sign():
    assert number(-0.02) == "\N{MINUS SIGN}0.020"
    assert number(1234567) == "1,234,567"
    assert number(None) == NOTHING


def test_facet_that_is_no_column_is_refused():
    with pytest.raises(ValueError, match=r"facets \['colour'\] are no columns"):
        FilterTable("pairs", Table(["rule"], [["agreed"]]), ["colour"])


def test_facets_offer_their_values_with_counts():
    block = FilterTable("pairs", Table(["rule", "n"], [["agreed", 1], ["tie", 2], ["agreed", 3]]), ["rule"])
    assert block.choices == [("rule", [("agreed", 2), ("tie", 1)])]
    assert block.places == [[0], [1], [0]]
