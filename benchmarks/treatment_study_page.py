"""The page of the treatment study: docs/treatment_study.md, written from what the finished worlds measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

Record = Mapping[str, Any]

INTRODUCTION = """\
# What treatments are worth, over several worlds

Written by `python -m benchmarks.treatment_study` (and `--size small`) from what these runs measured. Each world has
its own policy (supervised training from scratch), prompts, responses, votes of six annotators, and 20 % of the decided
pairs with all votes turned round; labels are majorities. Each treatment is trained once in each world, with the one
recipe that the file names. The recipe was found on world 0 of an earlier draft, where three and six passes and beta .1
were tried as well; nothing else was chosen on the worlds that are shown.
"""
POLICIES = (
    "start", "untreated", "augmented", "selected", "random half", "hardest half", "easiest half, in order",
    "gold filtered",
)  # fmt: skip
CURVES = ("start", "untreated", "augmented", "unswapped")
DIFFERENCES = (
    ("unlearning: log-probability of good rejected responses", "drift", "augmented", "untreated"),
    ("gold reward", "reward", "augmented", "untreated"),
    ("gold reward, data without nearly right responses", "without_optimum", "augmented", "untreated"),
    ("accuracy", "accuracy", "selected", "untreated"),
    ("accuracy", "accuracy", "easiest half", "untreated"),
    ("accuracy", "accuracy", "easiest half", "random half"),
    ("accuracy", "accuracy", "hardest half", "random half"),
    ("accuracy, what wrong labels cost", "accuracy", "gold filtered", "untreated"),
    ("gold reward", "reward", "selected", "untreated"),
    ("gold reward", "reward", "easiest half", "random half"),
    ("gold reward", "reward", "hardest half", "random half"),
)


def page(
    tiny: Sequence[Record], larger: Mapping[str, Sequence[Record]], *, shares: Sequence[float], goals: Sequence[float]
) -> str:
    """The whole page, from the worlds of tiny policies and those of larger ones by size."""
    tiny = [_with_half(world) for world in tiny]
    lines = [
        INTRODUCTION,
        *_policies(tiny),
        *_differences(tiny),
        *_new_pairs({"tiny": tiny, **larger}),
        *_control(tiny, goals),
        *_shares(tiny, shares),
    ]
    return "\n".join(lines) + "\n"


def _with_half(world: Record) -> Record:
    half = {name: world[name] | {"easiest half": world["by_share"]["0.5"][name]} for name in ("accuracy", "reward")}
    return {**world, **half}


def _policies(worlds: Sequence[Record]) -> list[str]:
    rows = [[name, _cell(worlds, "accuracy", name), _cell(worlds, "reward", name)] for name in POLICIES]
    note = "Mean and standard error. `augmented` is asked for the goal that earns most on validation prompts."
    headings = ["trained on", "accuracy on clean test pairs", "gold reward"]
    return [f"## The policies of {len(worlds)} worlds\n", *_table(headings, rows), f"\n{note}\n"]


def _differences(worlds: Sequence[Record]) -> list[str]:
    """Paired differences, a world being the unit of the t test."""
    rows = []
    for what, figure, first, second in DIFFERENCES:
        values = np.array([world[figure][first] - world[figure][second] for world in worlds])
        above = f"{int((values > 0).sum())} of {len(values)}"
        p = ttest_1samp(values, 0.0).pvalue
        rows.append(
            [what, f"{first} minus {second}", f"{values.mean():+.3f}", f"{_error(values):.3f}", above, f"{p:.2g}"]
        )
    headings = ["of what", "difference", "mean", "s.e.", "above 0", "p"]
    return ["## Differences, a world being the unit\n", *_table(headings, rows), ""]


def _new_pairs(sizes: Mapping[str, Sequence[Record]]) -> list[str]:
    """Selection on many more pairs, because a test split of four hundred cannot tell two hundredths apart."""
    lines: list[str] = []
    for size, worlds in sizes.items():
        found = [world["new_pairs"] for world in worlds if "new_pairs" in world]
        if found:
            pairs = f"{min(one['pairs'] for one in found):,} to {max(one['pairs'] for one in found):,}"
            title = f"## Accuracy on {pairs} clean pairs of new prompts: {len(found)} worlds, {size} policies\n"
            lines += [
                title,
                *_table(["trained on", "accuracy", "minus untreated", "minus random half"], _rows(found)),
                "",
            ]
    return lines


def _rows(found: Sequence[Record]) -> list[list[str]]:
    rows = []
    for name in found[0]["accuracy"]:
        cells = [f"{np.mean([one['accuracy'][name] for one in found]):.3f}"]
        for other in ("untreated", "random half"):
            values = np.array([one["accuracy"][name] - one["accuracy"][other] for one in found])
            p = ttest_1samp(values, 0.0).pvalue if name != other and len(values) > 1 else np.nan
            cells.append("" if name == other else f"{values.mean():+.3f} (s.e. {_error(values):.3f}, p {p:.2g})")
        rows.append([name, *cells])
    return rows


def _control(worlds: Sequence[Record], goals: Sequence[float]) -> list[str]:
    rows = []
    for name in CURVES:
        curves = [world["curve"][name] for world in worlds]
        means = np.mean([curve["means"] for curve in curves], axis=0)
        rows.append([name, *(f"{mean:.2f}" for mean in means), _span(curves, "spearman"), _span(curves, "range")])
    headings = ["trained on", *(f"{goal:g}" for goal in goals), "Spearman", "range"]
    note = (
        "Mean over worlds; Spearman of goal and reward, and the reward at the last goal minus at the first, with the "
        "least and the greatest world. `unswapped`: the second half of the augmented pairs still prefers the better "
        "response."
    )
    return ["## Gold reward by goal asked for\n", *_table(headings, rows), f"\n{note}\n"]


def _shares(worlds: Sequence[Record], shares: Sequence[float]) -> list[str]:
    table = np.array([[world["by_share"][str(share)]["accuracy"] for share in shares] for world in worlds])
    best = ", ".join(f"{shares[row]:g}" for row in table.argmax(1))
    picked = ", ".join(f"{world['share']:g}" for world in worlds)
    rows = [[*(f"{mean:.3f}" for mean in table.mean(0)), best, picked]]
    headings = [*(f"{share:g}" for share in shares), "best by world", "picked on validation"]
    return ["## Accuracy on clean test pairs by share kept, easiest first\n", *_table(headings, rows)]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cell(worlds: Sequence[Record], figure: str, name: str) -> str:
    values = np.array([world[figure][name] for world in worlds if name in world[figure]])
    return f"{values.mean():.3f} ({_error(values):.3f})" if len(values) else ""


def _span(curves: Sequence[Record], figure: str) -> str:
    values = [curve[figure] for curve in curves]
    return f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
