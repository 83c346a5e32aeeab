"""The shapes of published benchmark files: one record into the comparisons it stands for, or a reason why it is none.

RewardBench (Lambert et al. 2024), RM-Bench (Liu et al. 2025), JudgeBench (Tan et al. 2025), HelpSteer (Wang et al.
2023).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import combinations, product
from typing import Any

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
CATEGORY = {subset: category for category, subsets in CATEGORIES.items() for subset in subsets}
DOMAINS = {"chat": "Chat", "code": "Code", "math": "Math", "safety-refuse": "Safety", "safety-response": "Safety"}
SOURCES = {
    "mmlu-pro": "Knowledge",
    "livebench-reasoning": "Reasoning",
    "livebench-math": "Math",
    "livecodebench": "Coding",
}
SIDES = {"A>B": ("response_A", "response_B"), "B>A": ("response_B", "response_A")}
STYLES = 3  # of RM-Bench: concise, detailed, detailed with markdown
DIFFICULTY = {-1: "hard", 0: "normal", 1: "easy"}  # whether the better response has the plainer style
HIGHEST = 4  # score of HelpSteer

Row = dict[str, Any]
Unit = tuple[int, list[Row]]
"""The line of an item and its comparisons, which are kept or refused together."""
Refused = tuple[int, str]
"""A line and the reason."""


def units(records: Iterable[tuple[int, Any]]) -> tuple[list[Unit], list[Refused]]:
    """The items of one file's records (line and value), and the records that are none."""
    found: list[Unit] = []
    refused: list[Refused] = []
    scored = []
    for line, value in records:
        try:
            if isinstance(value, dict) and "helpfulness" in value:
                scored.append(_scored(line, value))
            else:
                found.append((line, _shape(value)(line, value)))
        except ValueError as reason:
            refused.append((line, str(reason)))
    return found + _help_steer(scored), refused


def _shape(value: Any) -> Callable[[int, Mapping[str, Any]], list[Row]]:
    """Which benchmark a record is of, by its fields; RM-Bench may name a subset too, but its responses are lists."""
    keys = value.keys() if isinstance(value, dict) else set()
    if keys >= {"question", "response_A", "response_B", "label", "source"}:
        return _judge_bench
    if keys >= {"prompt", "chosen", "rejected"} and ("domain" in keys or isinstance(value["chosen"], list)):
        return _rm_bench
    if keys >= {"prompt", "chosen", "rejected", "subset"}:
        return _reward_bench
    raise ValueError("the fields are those of no benchmark that is known")


def _reward_bench(line: int, value: Mapping[str, Any]) -> list[Row]:
    subset = _known(value["subset"], CATEGORY, "subset of RewardBench")
    texts = (value["prompt"], value["chosen"], value["rejected"])
    return [_row("reward_bench", _name(value, "id", line), "", subset, CATEGORY[subset], *texts)]


def _rm_bench(line: int, value: Mapping[str, Any]) -> list[Row]:
    chosen, rejected = value["chosen"], value["rejected"]
    if not all(isinstance(side, list) and len(side) == STYLES for side in (chosen, rejected)):
        raise ValueError(f"chosen and rejected of RM-Bench are lists of {STYLES} responses")
    if "domain" not in value:
        raise ValueError("domain of RM-Bench is missing: its files by domain lack it, total_dataset.json has it")
    domain = _known(value["domain"], DOMAINS, "domain of RM-Bench")
    rows = []
    for i, j in product(range(STYLES), repeat=2):
        difficulty = DIFFICULTY[(i > j) - (i < j)]
        texts = (value["prompt"], chosen[i], rejected[j])
        rows.append(
            _row("rm_bench", _name(value, "id", line), f"{i}-{j} {domain}", difficulty, DOMAINS[domain], *texts)
        )
    return rows


def _judge_bench(line: int, value: Mapping[str, Any]) -> list[Row]:
    sides = SIDES[_known(value["label"], SIDES, "label of JudgeBench")]
    source = value["source"]
    group = next((name for part, name in SOURCES.items() if isinstance(source, str) and part in source), None)
    if group is None:
        raise ValueError(f"unknown source of JudgeBench {source!r}: it names none of {', '.join(SOURCES)}")
    texts = (value["question"], *(value[side] for side in sides))
    return [_row("judge_bench", _name(value, "pair_id", line), "", source, group, *texts)]


def _scored(line: int, value: Mapping[str, Any]) -> tuple[int, str, str, float]:
    """Line, prompt, response and helpfulness of a record of HelpSteer."""
    score, texts = value["helpfulness"], (value.get("prompt"), value.get("response"))
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= HIGHEST:
        raise ValueError(f"helpfulness of HelpSteer is {score!r}, not a number from 0 to {HIGHEST}")
    prompt, response = (_text(text, "prompt or response of HelpSteer") for text in texts)
    return line, prompt, response, float(score)


def _help_steer(records: Iterable[tuple[int, str, str, float]]) -> list[Unit]:
    """Pairs of responses to one prompt that differ in helpfulness."""
    by_prompt: dict[str, list[tuple[int, str, float]]] = {}
    for line, prompt, response, score in records:
        by_prompt.setdefault(prompt, []).append((line, response, score))
    found = []
    for prompt, responses in by_prompt.items():
        for one, other in combinations(responses, 2):
            if one[2] == other[2] or one[1] == other[1]:
                continue
            better, worse = (one, other) if one[2] > other[2] else (other, one)
            texts = (prompt, better[1], worse[1])
            names = (f"{one[0]}-{other[0]}", str(other[0]), "helpfulness", "HelpSteer")
            found.append((one[0], [_row("help_steer", *names, *texts) | {"strength": better[2] - worse[2]}]))
    return found


def _known(value: Any, names: Collection[str], what: str) -> str:
    """The value, if it is one of the names: anything may stand in a file, a list too."""
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"unknown {what} {value!r}: one of {', '.join(names)} is needed")
    return value


def _name(value: Mapping[str, Any], key: str, line: int) -> str:
    name = value.get(key)
    return str(name) if isinstance(name, str | int) and name != "" else str(line)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} is no text or empty")
    return value


def _row(benchmark: str, item: str, part: str, subset: str, group: str, prompt: Any, chosen: Any, rejected: Any) -> Row:
    prompt, chosen, rejected = (_text(text, "prompt, chosen or rejected") for text in (prompt, chosen, rejected))
    names = {"benchmark": benchmark, "item": item, "part": part, "subset": subset, "group": group}
    texts = {"prompt": [{"role": "user", "content": prompt}], "chosen": chosen, "rejected": rejected}
    return names | texts | {"strength": None}
