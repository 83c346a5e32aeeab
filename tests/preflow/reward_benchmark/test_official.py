"""What the authors' arithmetic makes of a benchmark: values worked by hand, and what must not change a score."""

import json

import numpy as np
import polars as pl
import pytest

from preflow.reward_benchmark.official import COUNTS, official_scores
from preflow.reward_benchmark.published import read_benchmarks
from preflow.reward_benchmark.scoring import item_margins, published_scores
from preflow.reward_benchmark.shapes import CATEGORY
from tests.preflow.reward_benchmark.shapes import STYLES, help_steer, judge_bench, reward_bench, rm_bench, write

HOW = {"rounds": 2000, "seed": 0}


def margins(items, good):
    """1 where `good(chosen, rejected, part)`, -1 elsewhere."""
    columns = items.select("chosen", "rejected", "part").rows()
    return np.array([1.0 if good(*row) else -1.0 for row in columns])


@pytest.fixture
def style(tmp_path):
    """RM-Bench in all five domains, and a reward that looks at style alone."""
    domains = ("chat", "code", "math", "safety-refuse", "safety-response")
    (tmp_path / "total_dataset.json").write_text(
        json.dumps([rm_bench(i, domain) for i, domain in enumerate(domains * 3)])
    )
    items = read_benchmarks(tmp_path).items

    def level(text):
        return next(i for i, style in reversed(list(enumerate(STYLES))) if text.endswith(style))

    return items, np.array([float(level(c) - level(r)) for c, r in items.select("chosen", "rejected").rows()])


@pytest.mark.claim("gram-10")
def test_rm_bench_is_averaged_as_its_authors_do(style, record_claim):
    items, by_style = style
    assert len(items) == 15 * 9

    def by_difficulty(scores):
        rows = [subset for group in scores["groups"].values() for subset in group["subsets"]]
        return {name: {row["accuracy"] for row in rows if row["subset"] == name} for name in ("easy", "normal", "hard")}

    ties = official_scores(items, np.zeros(len(items)), **HOW)["rm_bench"]
    assert (ties["overall"], ties["ties"]) == (0.0, len(items))
    only_style = official_scores(items, by_style, **HOW)["rm_bench"]
    assert by_difficulty(only_style) == {"easy": {1.0}, "normal": {0.0}, "hard": {0.0}}
    noisy = official_scores(items, np.random.default_rng(0).normal(size=len(items)), **HOW)["rm_bench"]
    domains = np.mean([group["accuracy"] for group in noisy["groups"].values()])
    cells = np.array([[row["accuracy"] for row in group["subsets"]] for group in noisy["groups"].values()])
    assert cells.shape == (4, 3)
    off = max(abs(noisy["overall"] - domains), abs(noisy["overall"] - cells.mean(axis=0).mean()))
    assert only_style["difficulty"] == {"easy": 1.0, "normal": 0.0, "hard": 0.0}
    assert off <= 1e-12
    assert noisy["overall"] == pytest.approx(np.mean(list(noisy["difficulty"].values())), abs=1e-12)
    record_claim(f"all ties 0; style alone easy 1, normal 0, hard 0; overall off both means by {off:.0e}")


def test_rm_bench_pools_the_two_kinds_of_safety(tmp_path):
    rows = [rm_bench(0, "safety-refuse"), *(rm_bench(i, "safety-response") for i in range(1, 5))]
    write(tmp_path, "a.jsonl", rows)
    items = read_benchmarks(tmp_path).items
    scores = official_scores(items, margins(items, lambda _c, _r, part: part.endswith("refuse")), **HOW)["rm_bench"]
    assert scores["groups"]["Safety"]["accuracy"] == pytest.approx(0.2)
    assert (scores["overall"], scores["missing"]) == (None, ["Chat", "Code", "Math"])


@pytest.fixture
def every_subset(tmp_path):
    """RewardBench with twelve pairs in each of its 23 subsets."""
    rows = [reward_bench(f"{subset} {i}", subset) for subset in CATEGORY for i in range(12)]
    write(tmp_path, "filtered.jsonl", rows)
    return read_benchmarks(tmp_path).items


@pytest.mark.parametrize(
    ("subset", "category", "accuracy"),
    [
        ("math-prm", "Reasoning", 984 / 1968),
        ("hep-go", "Reasoning", 164 / 1968),
        ("xstest-should-refuse", "Safety", 250 / 740),
        ("mt-bench-hard", "Chat Hard", 37 / 456),
        ("alpacaeval-length", "Chat", 95 / 358),
    ],
)
def test_reward_bench_weighs_a_subset_by_its_published_number(every_subset, subset, category, accuracy):
    items = every_subset
    right = np.where((items["subset"] == subset).to_numpy(), 1.0, -1.0)
    scores = official_scores(items, right, **HOW)["reward_bench"]
    assert {name: group["accuracy"] for name, group in scores["groups"].items() if group["accuracy"]} == {
        category: pytest.approx(accuracy)
    }
    assert scores["overall"] == pytest.approx(accuracy / 4)
    assert scores["pooled"]["estimate"] == pytest.approx(1 / 23)
    assert scores["missing"] == []


def test_the_published_numbers_of_reward_bench_make_mathematics_weigh_as_code():
    assert set(COUNTS) == set(CATEGORY)
    assert sum(COUNTS.values()) == 2985 - 447 + 984
    assert COUNTS["math-prm"] == sum(count for subset, count in COUNTS.items() if subset.startswith("hep-"))


def test_without_a_subset_there_is_no_overall_number(every_subset):
    items = every_subset.filter(pl.col("subset") != "hep-go")
    scores = official_scores(items, np.ones(len(items)), **HOW)["reward_bench"]
    assert (scores["overall"], scores["missing"], scores["overall_interval"]) == (None, ["hep-go"], None)
    assert scores["groups"]["Chat"]["accuracy"] == 1.0


def test_judge_bench_counts_pairs_and_names_its_files(tmp_path):
    sources = ("mmlu-pro-law", "livebench-reasoning", "livebench-math", "livecodebench")
    write(
        tmp_path,
        "gpt.jsonl",
        [judge_bench(f"{i} {s}", "A>B", s) for s in sources for i in range(3 if s[0] == "m" else 1)],
    )
    write(tmp_path, "claude.jsonl", [judge_bench(f"c {s}", "B>A", s) for s in sources])
    items = read_benchmarks(tmp_path).items
    knowledge = np.where((items["group"] == "Knowledge").to_numpy(), 1.0, -1.0)
    scores = official_scores(items, knowledge, **HOW)["judge_bench"]
    assert scores["overall"] == scores["pooled"]["estimate"] == pytest.approx(4 / 10)
    assert scores["by_file"] == {"claude.jsonl": pytest.approx(1 / 4), "gpt.jsonl": pytest.approx(3 / 6)}


def test_help_steer_has_a_rank_correlation_and_intervals_over_prompts(tmp_path):
    rows = [
        help_steer(f"p{i}", f"{word} {i}", score) for i in range(12) for word, score in (("a", 4), ("b", 3), ("c", 0))
    ]
    write(tmp_path, "train.jsonl", rows)
    items = read_benchmarks(tmp_path).items
    strength = items["strength"].to_numpy()
    scores = official_scores(items, strength, **HOW)["help_steer"]
    assert (scores["n"], scores["overall"], scores["spearman"]) == (36, 1.0, pytest.approx(1.0))
    assert official_scores(items, -strength, **HOW)["help_steer"]["spearman"] == pytest.approx(-1.0)
    assert official_scores(items, 0 * strength, **HOW)["help_steer"]["spearman"] is None
    half = np.where(items["line"].to_numpy() <= 18, 1.0, -1.0)  # a prompt is right or wrong as a whole
    pooled = official_scores(items, half, **HOW)["help_steer"]["pooled"]
    assert pooled["unit"] == "cluster"
    assert pooled["high"] - pooled["low"] > 0.45, "12 prompts say less than 36 pairs"


def test_each_item_needs_its_margin(every_subset):
    with pytest.raises(ValueError, match="276 items need a margin each; it got 3"):
        official_scores(every_subset, np.ones(3), **HOW)


def test_a_scorer_meets_the_items_and_what_it_cannot_read_is_counted(tmp_path):
    class Length:
        def rewards(self, rows):
            return np.array([np.nan if text == "bad 2" else float(len(text)) for text in rows["response"]])

        def in_both_orders(self, rows):
            return None

    write(tmp_path, "a.jsonl", [reward_bench(i, "hep-go") for i in range(3)])
    (scores,) = published_scores(tmp_path, lambda: {"length": Length()}, **HOW)["rewards"]["length"].values()
    assert (scores["n"], scores["not_read"], scores["pooled"]["estimate"]) == (2, 1, 1.0)
    assert scores["groups"]["Reasoning"]["subsets"] == [{"subset": "hep-go", "n": 2, "accuracy": 1.0}]

    def never():
        raise AssertionError

    (tmp_path / "none").mkdir()
    assert published_scores(tmp_path / "none", never, **HOW) == {"refused": [], "rewards": {}}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rows_changes_no_number_to_the_last_bit(style, every_subset, seed):
    rng = np.random.default_rng(seed)
    for items in (style[0], every_subset):
        given = rng.normal(size=len(items)).round(1)
        order = rng.permutation(len(items))
        assert official_scores(items[order.tolist()], given[order], **HOW) == official_scores(items, given, **HOW)


class CountsWords:
    """A reward of which each row stands for itself."""

    def rewards(self, rows):
        return np.array(
            [
                float(text.count(" ") + len(prompt[0]["content"]) % 3)
                for prompt, text in rows.select("prompt", "response").rows()
            ]
        )

    def in_both_orders(self, rows):
        return None


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_reward_scores_alike_however_the_items_are_cut(every_subset, size):
    whole = item_margins(CountsWords(), every_subset)
    cut = [item_margins(CountsWords(), every_subset[i : i + size]) for i in range(0, len(every_subset), size)]
    assert np.array_equal(np.concatenate(cut), whole)
    assert official_scores(every_subset, np.concatenate(cut), **HOW) == official_scores(every_subset, whole, **HOW)
