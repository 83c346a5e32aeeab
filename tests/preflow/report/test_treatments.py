import polars as pl
import pytest

from preflow.comparison.summary import not_measured, summarise_comparison
from preflow.report.blocks import NOTHING, Figure, Table, Text
from preflow.report.page import render_page
from preflow.report.treatments import worth
from tests.preflow.comparison.tables import goal_world, logprobs, no_logprobs, no_verdicts, verdicts, world

SETTINGS = {"good_score": 7.0, "rounds": 2000, "seed": 0}


@pytest.fixture(scope="module")
def summary():
    plain = world({"untreated": 0, "gold_filtered": 0.9, "random_share": 0.0, "hardest_share": -0.9})
    goals = goal_world()
    judged = pl.concat([plain, goals.filter(pl.col("goal").is_not_null())])
    # Compared policies have to answer the same prompts, and `goal_world` has 24 of them.
    prompts = goals["prompt_group"].unique().to_list()
    judged = judged.filter(pl.col("prompt_group").is_in(prompts), pl.col("sample") == 0)
    drift = logprobs({"untreated": -12, "gold_filtered": -3})
    return summarise_comparison(judged, verdicts([1.0, 0.5] * 12, treatment="gold_filtered"), drift, **SETTINGS)


def tables_of(section):
    return [block for block in section.blocks if isinstance(block, Table)]


def test_finding_says_what_is_better_worse_and_not_separable(summary):
    found = {row["treatment"]: row["separable"] for row in summary["contrasts"] if row["judge"] == "gold"}
    assert found["gold_filtered"]
    assert not found["random_share"]
    finding = worth(summary, {}).finding
    better, worse, unclear = finding.split("; ")[1:]
    assert better.startswith("better than untreated: gold filtered (+")
    assert "hardest share (\N{MINUS SIGN}" in worse
    assert unclear.startswith("not separable from untreated: random share (")
    assert finding.startswith("On 24 test prompts, judged by the program that knows the task;")


def test_without_a_separable_contrast_nothing_is_called_better():
    null = world({"untreated": 0, "random_share": 0}, prompts=12, seed=1)
    finding = worth(summarise_comparison(null, no_verdicts(), no_logprobs(), **SETTINGS), {}).finding
    assert "not separable from untreated: random share" in finding
    assert "better" not in finding
    assert "worse" not in finding


def test_table_has_a_row_a_policy_with_the_figures_of_the_summary(summary):
    table = tables_of(worth(summary, {"untreated": 1200, "gold_filtered": 900}))[0]
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert len(rows) == 5
    assert table.rows[0][0] == "gold filtered"  # the best comes first
    assert rows["untreated"]["pairs trained on"] == 1200
    assert rows["untreated"]["minus untreated [95 %]"] == NOTHING
    assert rows["reward augmented"]["goal"] == "7"
    contrast = next(
        row for row in summary["contrasts"] if row["treatment"] == "gold_filtered" and row["judge"] == "gold"
    )
    assert rows["gold filtered"]["minus untreated [95 %]"].startswith(f"{contrast['difference']:.3f} [")
    assert rows["gold filtered"]["win rate"] == f"{contrast['win_rate']:.1%}"


def test_every_contrast_is_listed_with_its_seeds(summary):
    table = tables_of(worth(summary, {}))[1]
    assert len(table.rows) == len(summary["contrasts"]) == 6
    by_seed = [row[table.columns.index("by seed")] for row in table.rows]
    assert [len(cell.split(", ")) for cell in by_seed] == [2, 2, 2, 2, 2, 1]
    assert table.rows[-1][:3] == ["endpoint", "gold filtered against untreated", NOTHING]


def test_the_position_bias_of_the_language_model_is_told_where_it_was_asked(summary):
    """Twelve prompts won in both orders, on twelve whatever came first: 12 + 24 of 48 preferences are for the first."""
    [said] = [block.text for block in worth(summary, {}).blocks if isinstance(block, Text)]
    assert said.startswith("Of 48 preferences of the language model, each pair asked in both orders, 0.750 [")
    assert said.endswith("were for the response that came first (0.5: no position bias).")


def test_goal_control_and_drift_are_shown_where_measured_and_missed_aloud_where_not(summary):
    section = worth(summary, {})
    assert len([block for block in section.blocks if isinstance(block, Figure)]) == 2
    assert [table.columns[0] for table in tables_of(section)[2:]] == ["asked for a goal", "treatment"]
    plain = world({"untreated": 0, "random_share": 0}, prompts=12)
    bare = worth(summarise_comparison(plain, no_verdicts(), no_logprobs(), **SETTINGS), {})
    said = [block.text for block in bare.blocks if isinstance(block, Text)]
    assert said == ["No policy was asked for a goal.", "No rejected response has a score of 7.0 or more."]


def test_one_policy_alone_is_nothing_to_compare():
    alone = summarise_comparison(world({"untreated": 0}, prompts=12), no_verdicts(), no_logprobs(), **SETTINGS)
    section = worth(alone, {})
    assert section.finding == "Only untreated was judged: there is nothing to compare."
    assert len(tables_of(section)[0].rows) == 1


def test_what_was_not_measured_says_why():
    section = worth(not_measured("no policy was trained, `policies.train` is false"), {})
    assert section.finding == "Not measured: no policy was trained, `policies.train` is false."
    assert not section.blocks


def test_section_renders_to_the_same_bytes(summary):
    page = render_page("Treatments", [], [worth(summary, {})])
    assert page == render_page("Treatments", [], [worth(summary, {})])
    assert page.count("<figure>") == 2
