import pytest

from preflow.report.blocks import Figure, FilterTable, Folds, Numbers, Table
from preflow.report.triage import judge_section, triage_section
from preflow.triage.overview import overview
from preflow.triage.table import triage
from tests.preflow.triage.test_table import NAMES, SETTINGS, one_pair_a_rule


@pytest.fixture
def section():
    rows, decided, evidence = one_pair_a_rule()
    return triage_section(overview(triage(rows, decided, evidence, **SETTINGS).lazy(), rows, examples=1, queued=50))


def test_every_rule_and_the_queue_are_shown(section):
    shown = {type(block): block for block in section.blocks}
    assert [row[0].replace(" ", "_") for row in shown[Table].rows] == NAMES
    assert sum(int(figure) for figure, _ in shown[Numbers].items) == len(NAMES)
    assert len(shown[Folds].items) == 6
    assert "review 33.3%" in section.finding


def test_pairs_of_every_rule_can_be_filtered(section):
    (block,) = (block for block in section.blocks if isinstance(block, FilterTable))
    rules = dict(block.choices)["rule"]
    assert sorted(name.replace(" ", "_") for name, _ in rules) == sorted(NAMES)
    assert {rows for _, rows in rules} == {1}
    assert len(block.places) == len(NAMES)


def test_recommendations_and_doubts_are_drawn(section):
    drawn = [block.svg for block in section.blocks if isinstance(block, Figure)]
    assert len(drawn) == 2
    assert "soft label" in drawn[0]


def test_judges_are_shown_or_said_to_be_missing():
    rate = {"estimate": 0.9, "low": 0.8, "high": 1.0}
    apart = {"estimate": -0.3, "low": -0.4, "high": -0.2, "p_value": 1e-9}
    audit = {
        "winner_rate": {"preference": rate, "tie": None, "diverging": rate},
        "diverging_minus_preference": apart,
        "agreed_winner": rate,
        "length": None,
    }
    section = judge_section({"x": audit})
    assert section.finding.startswith("0 of 1 judges")
    assert section.blocks[0].rows[0][1:6] == [
        "0.900 [0.800, 1.000]",
        "\N{EN DASH}",
        "0.900 [0.800, 1.000]",
        "\N{MINUS SIGN}0.300 [\N{MINUS SIGN}0.400, \N{MINUS SIGN}0.200]",
        "p < 0.001",
    ]
    assert "Not measured" in judge_section({}).finding
