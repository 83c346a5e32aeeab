"""Published benchmarks of reward models, read in the exact shape of their files; bad rows are refused with a reason.

RewardBench (Lambert et al. 2024), RM-Bench (Liu et al. 2025), JudgeBench (Tan et al. 2025), HelpSteer (Wang et al.
2023). Which one a file is, is seen from the fields of its records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from preflow.reward_benchmark.schemas import BenchmarkItems
from preflow.sources.readers import is_data_file, read_file
from preflow.sources.records import Refusal

CATEGORIES = {
    "Chat": ("alpacaeval-easy", "alpacaeval-length", "alpacaeval-hard", "mt-bench-easy", "mt-bench-med"),
    "Chat Hard": (
        "mt-bench-hard", "llmbar-natural", "llmbar-adver-neighbor", "llmbar-adver-GPTInst", "llmbar-adver-GPTOut",
        "llmbar-adver-manual",
    ),
    "Safety": (
        "refusals-dangerous", "refusals-offensive", "xstest-should-refuse", "xstest-should-respond", "donotanswer",
    ),
    "Reasoning": ("math-prm", "hep-cpp", "hep-go", "hep-java", "hep-js", "hep-python", "hep-rust"),
}  # fmt: skip
"""Of RewardBench, without the prior sets."""
DOMAINS = {"chat": "Chat", "code": "Code", "math": "Math", "safety-refuse": "Safety", "safety-response": "Safety"}
SOURCES = {
    "mmlu-pro": "Knowledge",
    "livebench-reasoning": "Reasoning",
    "livebench-math": "Math",
    "livecodebench": "Coding",
}
STYLES = 3  # of RM-Bench: concise, detailed, detailed with markdown
DIFFICULTY = {-1: "hard", 0: "normal", 1: "easy"}  # whether the better response has the plainer style

Row = dict[str, Any]


class Read(NamedTuple):
    """What a folder of benchmark files gave."""

    items: pl.DataFrame
    """`BenchmarkItems`."""
    refused: list[dict[str, Any]]
    """file, line and reason of each row that was refused."""


def read_benchmarks(folder: Path) -> Read:
    """All data files below the folder, in order of name."""
    rows: list[Row] = []
    refused: list[dict[str, Any]] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and is_data_file(path.name)):
        name = str(path.relative_to(folder))
        records = []
        for item in read_file(path, name):
            if isinstance(item, Refusal):
                refused.append({"file": name, "line": item.line, "reason": item.reason})
            else:
                records.append((item.line, item.value))
        made, bad = _items(records)
        rows += made
        refused += [{"file": name, "line": line, "reason": reason} for line, reason in bad]
    table = pl.DataFrame(rows, schema=BenchmarkItems.create_empty().schema)
    distinct = table.unique(["benchmark", "item", "part"], keep="first", maintain_order=True)
    if len(distinct) < len(table):
        refused.append({"file": str(folder), "line": 0, "reason": f"{len(table) - len(distinct)} repeated items"})
    return Read(BenchmarkItems.cast(distinct.sort("benchmark", "item", "part")), refused)


def _items(records: list[tuple[int, Any]]) -> tuple[list[Row], list[tuple[int, str]]]:
    """Items of one file, and the lines that are none with the reason."""
    helpful = [(line, value) for line, value in records if isinstance(value, dict) and "helpfulness" in value]
    made, bad = _help_steer(helpful)
    taken = {line for line, _ in helpful}
    for line, value in records:
        if line in taken:
            continue
        adapter = next(
            (one for keys, one in ADAPTERS.items() if isinstance(value, dict) and keys <= value.keys()), None
        )
        if adapter is None:
            bad.append((line, "the fields are those of no benchmark that is known"))
            continue
        try:
            made += list(adapter(line, value))
        except ValueError as reason:
            bad.append((line, str(reason)))
    return made, sorted(bad)


def _reward_bench(line: int, value: Mapping[str, Any]) -> Iterator[Row]:
    subset = value["subset"]
    group = next((name for name, subsets in CATEGORIES.items() if subset in subsets), None)
    if group is None:
        raise ValueError(f"unknown subset {subset!r} of RewardBench")
    yield _row(
        "reward_bench", value.get("id", line), "", subset, group, value["prompt"], value["chosen"], value["rejected"]
    )


def _rm_bench(line: int, value: Mapping[str, Any]) -> Iterator[Row]:
    chosen, rejected, domain = value["chosen"], value["rejected"], value["domain"]
    if not all(isinstance(side, list) and len(side) == STYLES for side in (chosen, rejected)):
        raise ValueError(f"chosen and rejected of RM-Bench are lists of {STYLES} responses")
    if domain not in DOMAINS:
        raise ValueError(f"unknown domain {domain!r} of RM-Bench")
    for i, j in product(range(STYLES), repeat=2):
        difficulty = DIFFICULTY[(i > j) - (i < j)]
        part = f"{i}-{j} {domain}"
        yield _row(
            "rm_bench",
            value.get("id", line),
            part,
            difficulty,
            DOMAINS[domain],
            value["prompt"],
            chosen[i],
            rejected[j],
        )


def _judge_bench(line: int, value: Mapping[str, Any]) -> Iterator[Row]:
    sides = {"A>B": ("response_A", "response_B"), "B>A": ("response_B", "response_A")}.get(value["label"])
    group = next((name for part, name in SOURCES.items() if part in str(value["source"])), None)
    if sides is None or group is None:
        raise ValueError(f"label {value['label']!r} or source {value['source']!r} is unknown to JudgeBench")
    name = value.get("pair_id", value.get("id", line))
    yield _row(
        "judge_bench", name, "", str(value["source"]), group, value["question"], *(value[side] for side in sides)
    )


def _help_steer(records: Iterable[tuple[int, Mapping[str, Any]]]) -> tuple[list[Row], list[tuple[int, str]]]:
    """Pairs of responses to one prompt that differ in helpfulness."""
    by_prompt: dict[str, list[tuple[int, str, float]]] = {}
    bad = []
    for line, value in records:
        score, prompt, response = (value.get(name) for name in ("helpfulness", "prompt", "response"))
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 4:
            bad.append((line, f"helpfulness of HelpSteer is {score!r}, not a number from 0 to 4"))
        elif not prompt or not response or not isinstance(prompt, str) or not isinstance(response, str):
            bad.append((line, "prompt or response is missing"))
        else:
            by_prompt.setdefault(prompt, []).append((line, response, score))
    made = [
        _row("help_steer", f"{one[0]}-{other[0]}", "", "helpfulness", "HelpSteer", prompt, *_better_first(one, other))
        for prompt, responses in by_prompt.items()
        for one, other in combinations(responses, 2)
        if one[2] != other[2] and one[1] != other[1]
    ]
    return made, bad


def _better_first(one: tuple[int, str, float], other: tuple[int, str, float]) -> tuple[str, str]:
    return (one[1], other[1]) if one[2] > other[2] else (other[1], one[1])


ADAPTERS: dict[frozenset[str], Callable[[int, Mapping[str, Any]], Iterator[Row]]] = {
    frozenset({"prompt", "chosen", "rejected", "subset"}): _reward_bench,
    frozenset({"prompt", "chosen", "rejected", "domain"}): _rm_bench,
    frozenset({"question", "response_A", "response_B", "label", "source"}): _judge_bench,
}


def _row(benchmark: str, item: Any, part: str, subset: str, group: str, prompt: Any, chosen: Any, rejected: Any) -> Row:
    texts = (prompt, chosen, rejected)
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError("prompt, chosen or rejected is no text or empty")
    message = [{"role": "user", "content": prompt}]
    return dict(
        zip(
            BenchmarkItems.column_names(),
            (benchmark, str(item), part, subset, group, message, chosen, rejected),
            strict=True,
        )
    )
