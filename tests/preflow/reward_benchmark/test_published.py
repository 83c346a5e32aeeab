"""Files of the exact published shape, made here: what is read, and what is refused with its place and reason."""

import polars as pl
import pytest

from preflow.reward_benchmark.published import read_benchmarks
from preflow.reward_benchmark.schemas import BenchmarkItems
from tests.preflow.reward_benchmark.shapes import help_steer, judge_bench, reward_bench, rm_bench, write


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
    BenchmarkItems.validate(read.items)
    reasons = {row["line"]: row["reason"] for row in read.refused}
    assert sorted(reasons) == list(range(2, 11))
    assert "no-such-subset" in reasons[2]
    assert "lists of 3 responses" in reasons[4]
    assert "9, not a number from 0 to 4" in reasons[7]


def test_fields_of_any_type_are_refused_and_never_stop_the_reading(tmp_path):
    rows = [
        reward_bench(1, ["hep-go"]),
        rm_bench(2, ["chat"]),
        rm_bench(3, None),
        judge_bench("x", ["A>B"], "mmlu-pro"),
        judge_bench("y", "A>B", {"mmlu-pro": 1}),
        help_steer("p", "one", [4]),
        help_steer(7, "one", 4),
    ]
    write(tmp_path, "mixed.jsonl", rows)
    read = read_benchmarks(tmp_path)
    assert read.items.is_empty()
    assert [row["line"] for row in read.refused] == list(range(1, 8))
    assert "one of alpacaeval-easy" in read.refused[0]["reason"]


def test_no_row_is_lost_to_another_of_the_same_name(tmp_path):
    """Ids may be missing, or not be keys: HelpSteer has none, and its files number their lines alike."""
    write(tmp_path, "train.jsonl", [help_steer("p", "one", 4), help_steer("p", "two", 1)])
    write(tmp_path, "validation.jsonl", [help_steer("q", "one", 4), help_steer("q", "two", 2)])
    write(tmp_path, "bench.jsonl", [reward_bench(None, "hep-go", prompt=f"p{i}") for i in range(3)])
    write(tmp_path, "same.jsonl", [reward_bench(1, "hep-go"), reward_bench(1, "hep-cpp", prompt="another")])
    read = read_benchmarks(tmp_path)
    assert read.refused == []
    counts = dict(read.items.group_by("file").len().rows())
    assert counts == {"train.jsonl": 1, "validation.jsonl": 1, "bench.jsonl": 3, "same.jsonl": 2}
    assert read.items.filter(pl.col("file") == "bench.jsonl")["item"].to_list() == ["1", "2", "3"]
    strength = read.items.filter(pl.col("benchmark") == "help_steer")["strength"].to_list()
    assert strength == [3.0, 2.0]


def test_what_another_file_has_already_said_is_refused_with_both_places(tmp_path):
    rows = [reward_bench(1, "hep-go"), reward_bench(1, "hep-go"), judge_bench("x", "A>B", "livecodebench")]
    same = judge_bench("same texts", "A>B", "livecodebench") | {"response_A": "a", "response_B": "a"}
    write(tmp_path, "filtered.jsonl", [*rows, same])
    write(tmp_path, "raw.jsonl", [rows[0], reward_bench(2, "hep-go")])
    read = read_benchmarks(tmp_path)
    assert read.refused == [{"file": "raw.jsonl", "line": 1, "reason": "repeats line 1 of filtered.jsonl"}]
    assert len(read.items) == 5, "within a file, repeats and pairs of one text count, as their authors count them"


def test_rm_bench_is_told_by_its_responses_and_needs_its_domain(tmp_path):
    known = rm_bench(1, "code") | {"subset": "humanevalpack"}
    nameless = {name: value for name, value in known.items() if name != "domain"}
    write(tmp_path, "a.jsonl", [known, nameless])
    read = read_benchmarks(tmp_path)
    assert set(read.items["benchmark"]) == {"rm_bench"}
    assert "total_dataset.json has it" in read.refused[0]["reason"]


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "json"])
def test_reward_bench_is_read_from_every_kind_of_file(tmp_path, ending):
    table = pl.DataFrame([reward_bench(i, subset) for i, subset in enumerate(("hep-go", "donotanswer", "math-prm"))])
    path = tmp_path / f"filtered.{ending}"
    {"parquet": table.write_parquet, "jsonl": table.write_ndjson, "json": table.write_json}[ending](path)
    read = read_benchmarks(tmp_path)
    assert read.refused == []
    assert read.items.select("item", "group").rows() == [("0", "Reasoning"), ("1", "Safety"), ("2", "Reasoning")]
