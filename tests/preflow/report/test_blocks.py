import pytest

from preflow.report.blocks import NOTHING, Table, number


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
