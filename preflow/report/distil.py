"""The report's section of distillation: where the teacher was hacked, what would have told, and what helps."""

from collections.abc import Mapping
from math import exp
from typing import Any

import polars as pl

from preflow.charts import distance_curves, proxy_golden
from preflow.report.blocks import Block, Figure, Numbers, Section, Table, interval, number, percent

Record = Mapping[str, Any]


def distillation(found: Record) -> Section:
    """Regimes side by side; `found` is that of `preflow.distil.report.hacking_report`."""
    lead = (
        "Students distilled from one teacher on different data. Golden is the distance to the oracle that the teacher "
        "stands for, proxy that to the teacher, both on held-out prompts. Teacher hacking: golden rises while proxy "
        "falls. Intervals are over seeds."
    )
    bands, named = pl.DataFrame(found["bands"]), {name: found[name] for name in ("baseline", "control")}
    alarm, control = found["alarm"], found["alarms"][found["control"]]
    golden = [Figure(proxy_golden(bands, **named), "A line that turns up while it still goes left is hacking.")]
    blocks: list[Block] = [
        Numbers(
            [
                (len(found["regimes"]), "regimes"),
                (control["runs"], "seeds of each"),
                (f"{alarm['ratio_below']:.2f}", "train / held-out proxy below which the alarm goes off"),
                (percent(control["alarms"]), "of online runs set it off"),
            ]
        ),
        _regimes(found),
        Figure(distance_curves(bands, **named), "Golden solid, proxy dashed, with 95 % intervals."),
        *(golden if found["oracle"] else []),
        _remedies(found),
    ]
    return Section("distillation", "Teacher hacking", _finding(found), lead, blocks)


def _finding(found: Record) -> str:
    hacked = {name: row["verdicts"]["teacher_hacking"] for name, row in found["regimes"].items()}
    alarmed = [name for name, row in found["alarms"].items() if row["alarms"] > 0.5]
    said = [f"The alarm goes off in {', '.join(alarmed)}." if alarmed else "The alarm goes off in no regime."]
    if found["oracle"]:
        worst = [f"{name} {n} of {found['regimes'][name]['seeds']}" for name, n in hacked.items() if n]
        said.insert(0, f"Hacked: {', '.join(worst)} seeds." if worst else "No run hacks its teacher.")
    return " ".join([*said, found["advice"]["text"]])


def _regimes(found: Record) -> Table:
    rows = []
    for name, row in found["regimes"].items():
        alarms, stops = found["alarms"][name], found["stops"][name]
        verdicts = ", ".join(f"{verdict.replace('_', ' ')} {n}" for verdict, n in row["verdicts"].items() if n)
        rows.append(
            [
                name,
                *(_spread(row[measure]) for measure in ("golden_end", "golden_rise", "proxy_end", "ratio_end")),
                percent(alarms["alarms"]),
                verdicts or "no oracle",
                "" if stops["share"] is None else percent(stops["share"]),
                number(row["diversity"]["distinct_2"]),
            ]
        )
    caption = (
        "At the end of the runs. Golden rise: over its least value. Stopping recovers: the part of the rise that a "
        "stop at the alarm would have saved. Distinct bigrams: of the responses first drawn."
    )
    names = [
        "regime", "golden", "golden rise", "proxy", "train / held-out proxy", "alarm", "verdict", "stopping recovers",
        "distinct bigrams",
    ]  # fmt: skip
    return Table(names, rows, caption)


def _remedies(found: Record) -> Table:
    rows = [
        [
            row["remedy"],
            row["teacher_responses"],
            row["more_prompts"],
            *(_change(row, name) for name in ("golden", "proxy")),
            percent(row["alarms"]),
        ]
        for row in found["remedies"]
    ]
    caption = f"Beside {found['baseline']}, paired by seed, with 95 % intervals."
    names = ["remedy", "teacher responses", "more prompts", "golden distance", "proxy distance", "alarm"]
    return Table(names, rows, caption)


def _spread(measured: Record | None) -> str:
    return "" if measured is None else interval(*(measured[part] for part in ("estimate", "low", "high")))


def _change(row: Record, name: str) -> str:
    if row[f"{name}_change"] is None:
        return ""
    change, low, high = (f"{100 * (exp(row[f'{name}_{part}']) - 1):+.0f}" for part in ("change", "low", "high"))
    return f"{change} % [{low}, {high}]"
