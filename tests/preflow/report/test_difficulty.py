import polars as pl
import pytest

from preflow.report.blocks import Figure, Folds, Numbers
from preflow.report.difficulty import EXAMPLES, difficulty
from preflow.report.page import render_page
from preflow.treatments.schemas import DifficultyScores
from preflow.treatments.selection import select_easiest

HOSTILE = "</pre><script>document.title='owned'</script>"
N = 80


def pairs():
    ids = [f"{i:032x}" for i in range(N)]
    return pl.DataFrame(
        {
            "pair_id": ids,
            "prompt": [[{"role": "user", "content": f"question {i}"}] for i in range(N)],
            "chosen": [f"chosen {i} {HOSTILE}" for i in range(N)],
            "rejected": [f"rejected {i}" for i in range(N)],
            "chosen_is": "a",
            "score_chosen": 8.0,
            "score_rejected": 3.0,
            "prompt_group": ids,
            "split": "train",
            "source": "test",
        }
    )


def scores():
    """Harder with the number of the pair; of the harder half every other one is doubted."""
    frame = pairs().select("pair_id").with_row_index("i")
    doubted = (pl.col("i") >= N // 2) & (pl.col("i") % 2 == 0)
    return DifficultyScores.cast(
        frame.with_columns(
            scored_by=pl.lit("f" * 32),
            difficulty=pl.col("i") / N,
            spread=pl.lit(0.1),
            flip_suspicion=pl.when(doubted).then(0.8).otherwise(0.2),
            learned_at=pl.when(pl.col("i") < N // 2).then(1),
        )
    )


def selection(share, gain=0.05):
    accuracy = {0.5: 0.7 + gain, 0.8: 0.71, 1.0: 0.7}
    curve = [
        {"share": tried, "accuracy": value, "low": value - 0.01, "high": value + 0.01}
        for tried, value in accuracy.items()
    ]
    return {"share": share, "curve": curve}


@pytest.fixture
def selected():
    return select_easiest(pairs(), scores(), share=0.5, curriculum=False)


def test_examples_are_the_hardest_of_each_reason_in_full(selected):
    section = difficulty({"seed_agreement": 0.93}, selection(0.5), selected, scores())
    [folds] = [block for block in section.blocks if isinstance(block, Folds)]
    assert len(folds.items) == 2 * EXAMPLES
    assert folds.items[0].summary == f"flip suspected: question {N - 2}"
    assert folds.items[EXAMPLES].summary == f"too hard: question {N - 1}"
    assert "P(label wrong) at least 0.80" in folds.items[0].facts
    passages = [(passage.label, passage.text) for passage in folds.items[0].passages]
    assert passages[1:] == [("chosen", f"chosen {N - 2} {HOSTILE}"), ("rejected", f"rejected {N - 2}")]
    page = render_page("Difficulty", [], [section])
    assert "<script" not in page


def test_counts_and_agreement_are_shown(selected):
    section = difficulty({"seed_agreement": 0.934}, selection(0.5), selected, scores())
    [numbers] = [block for block in section.blocks if isinstance(block, Numbers)]
    assert [figure for figure, _ in numbers.items] == [f"{N // 2} of {N}", 20, 20, "0.93"]
    assert len([block for block in section.blocks if isinstance(block, Figure)]) == 1


@pytest.mark.parametrize(
    ("share", "gain", "said"),
    [
        (0.5, 0.05, "their intervals are apart."),
        (0.5, 0.015, "their intervals overlap, so the gain is not sure."),
        (1.0, -0.1, "no smaller share did better."),
    ],
)
def test_finding_says_whether_leaving_pairs_out_pays(selected, share, gain, said):
    section = difficulty({"seed_agreement": None}, selection(share, gain), selected, scores())
    assert section.finding.endswith(said)


def test_nothing_ranked_is_said(selected):
    section = difficulty({"pairs": 0}, {"share": None, "curve": []}, selected.clear(), scores().clear())
    assert section.finding == "Not measured: no pair was ranked."
    assert not section.blocks
