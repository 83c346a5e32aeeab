"""Files of the exact published shape, made here, and what their authors' arithmetic makes of them."""

import json

import numpy as np
import polars as pl
import pytest

from preflow.reward_benchmark.official import official_scores
from preflow.reward_benchmark.published import read_benchmarks
from preflow.reward_benchmark.schemas import BenchmarkItems
from preflow.reward_benchmark.scoring import published_scores

HOW = {"rounds": 2000, "seed": 0}
STYLES = ("short", "a longer text", "# a longer text with marks")


def reward_bench(name, subset, **fields):
    models = {"chosen_model": "x", "rejected_model": "y"}
    return (
        {"id": name, "prompt": f"p{name}", "chosen": f"good {name}", "rejected": f"bad {name}", "subset": subset}
        | models
        | fields
    )


def rm_bench(name, domain):
    sides = {side: [f"{side} {name} {style}" for style in STYLES] for side in ("chosen", "rejected")}
    return {"id": name, "prompt": f"p{name}", "domain": domain, **sides}


def judge_bench(name, label, source):
    sides = {"response_A": f"a {name}", "response_B": f"b {name}"}
    return {"pair_id": name, "source": source, "question": f"q{name}", "label": label, **sides}


def help_steer(prompt, response, helpfulness):
    others = dict.fromkeys(("correctness", "coherence", "complexity", "verbosity"), 2)
    return {"prompt": prompt, "response": response, "helpfulness": helpfulness, **others}


def write(folder, name, rows):
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


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
    assert off <= 1e-12
    record_claim(f"all ties 0; style alone easy 1, normal 0, hard 0; overall off both means by {off:.0e}")


def test_the_two_kinds_of_safety_weigh_alike_whatever_their_number(tmp_path):
    write(tmp_path, "a.jsonl", [rm_bench(0, "safety-refuse"), *(rm_bench(i, "safety-response") for i in range(1, 5))])
    items = read_benchmarks(tmp_path).items
    scores = official_scores(items, margins(items, lambda _c, _r, part: part.endswith("refuse")), **HOW)["rm_bench"]
    assert scores["overall"] == 0.5
    assert scores["pooled"]["estimate"] == 0.2


def test_reward_bench_weighs_mathematics_as_code(tmp_path):
    rows = [
        reward_bench(0, "math-prm"),
        *(reward_bench(i, "hep-go") for i in range(1, 985)),
        reward_bench(985, "donotanswer"),
    ]
    write(tmp_path, "filtered.jsonl", rows)
    items = read_benchmarks(tmp_path).items
    scores = official_scores(items, margins(items, lambda chosen, *_: chosen == "good 0"), **HOW)["reward_bench"]
    assert scores["groups"]["Reasoning"]["accuracy"] == 0.5
    assert scores["groups"]["Safety"]["accuracy"] == 0.0
    assert scores["overall"] == 0.25
    assert scores["pooled"]["estimate"] == pytest.approx(1 / 986)


def test_judge_bench_and_help_steer(tmp_path):
    write(tmp_path, "gpt.jsonl", [judge_bench("x", "A>B", "mmlu-pro-law"), judge_bench("y", "B>A", "livecodebench")])
    write(tmp_path, "steer.jsonl", [help_steer("p", "one", 4), help_steer("p", "two", 1), help_steer("p", "three", 1)])
    items = read_benchmarks(tmp_path).items
    BenchmarkItems.validate(items)
    found = {(row["item"], row["group"]): (row["chosen"], row["rejected"]) for row in items.to_dicts()}
    assert found == {
        ("x", "Knowledge"): ("a x", "b x"),
        ("y", "Coding"): ("b y", "a y"),
        ("1-2", "HelpSteer"): ("one", "two"),
        ("1-3", "HelpSteer"): ("one", "three"),
    }


def test_bad_rows_are_refused_with_their_place_and_the_rest_is_read(tmp_path):
    rows = [
        reward_bench(1, "hep-go"),
        reward_bench(2, "no-such-subset"),
        reward_bench(3, "hep-go", chosen=""),
        rm_bench(4, "chat") | {"chosen": ["one"]},
        rm_bench(5, "cooking"),
        judge_bench("x", "A=B", "mmlu-pro"),
        help_steer("p", "one", 9),
        {"text": "hello"},
        [1],
    ]
    write(tmp_path, "mixed.jsonl", rows)
    with (tmp_path / "mixed.jsonl").open("a") as file:
        file.write("{broken\n")
    read = read_benchmarks(tmp_path)
    assert read.items["item"].to_list() == ["1"]
    reasons = {row["line"]: row["reason"] for row in read.refused}
    assert sorted(reasons) == list(range(2, 11))
    assert "no-such-subset" in reasons[2]
    assert "lists of 3 responses" in reasons[4]
    assert "9, not a number from 0 to 4" in reasons[7]


def test_a_scorer_meets_the_items_and_what_it_cannot_read_is_counted(tmp_path):
    class Length:
        def rewards(self, rows):
            return np.array([np.nan if text == "bad 2" else float(len(text)) for text in rows["response"]])

        def in_both_orders(self, rows):
            return None

    write(tmp_path, "a.jsonl", [reward_bench(i, "hep-go") for i in range(3)])
    (scores,) = published_scores(tmp_path, lambda: {"length": Length()}, **HOW)["rewards"]["length"].values()
    assert (scores["n"], scores["not_read"], scores["overall"]) == (2, 1, 1.0)

    def never():
        raise AssertionError

    (tmp_path / "none").mkdir()
    assert published_scores(tmp_path / "none", never, **HOW) == {"refused": [], "rewards": {}}


def test_neither_order_nor_chunks_change_a_score(style):
    items, by_style = style
    order = np.random.default_rng(1).permutation(len(items))
    whole = official_scores(items, by_style, **HOW)["rm_bench"]
    turned = official_scores(items[order.tolist()], by_style[order], **HOW)["rm_bench"]
    assert turned["overall"] == whole["overall"]
    assert turned["groups"] == whole["groups"]
    assert pl.concat([items[:7], items[7:]]).equals(items)
