"""The report's section of rewards: how good each is, and what it pays for."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from preflow.charts import attribute_effects
from preflow.report.blocks import NOTHING, Block, Cell, Figure, Section, Table, interval, number, p_value, percent
from preflow.reward_audit.summary import paid_per_doubling

Record = Mapping[str, Any]
TITLE = "What the rewards reward"


def rewards(benchmark: Record, audit: pl.DataFrame) -> Section:
    """Rewards side by side, and the audit of each.

    Parameters
    ----------
    benchmark
        `own_pairs` and `published`, see `preflow.reward_benchmark`.
    audit
        `preflow.reward_audit.schemas.RewardedAttributes`.
    """
    lead = (
        "Rewards measured on test pairs that none was fitted on, and audited: every response is rewritten to have an "
        "attribute or not, and back (RATE), so that two rewrites are compared and what rewriting does stands on both "
        "sides. Naive is the difference between responses that have it and those that have not."
    )
    blocks: list[Block] = [_accuracies(benchmark["own_pairs"]), *_differences(benchmark["own_pairs"])]
    blocks += _published(benchmark["published"])
    blocks += [Figure(attribute_effects(audit), "What each reward pays for; blue where the interval leaves out zero.")]
    blocks += [_effects(audit), *_unknown(audit)]
    return Section("rewards", TITLE, _finding(audit), lead, blocks)


def _finding(audit: pl.DataFrame) -> str:
    paid = audit.filter(pl.col("per_doubling").is_not_null()).to_dicts()
    if not paid:
        return "What a longer response earns is not identified."
    return " ".join(f"The {row['reward']} reward {paid_per_doubling(row)}." for row in paid)


def _accuracies(own: Record) -> Table:
    rows: list[list[Cell]] = []
    for name, found in own["rewards"].items():
        accuracy = found["accuracy"]
        if accuracy is None:
            rows.append([name, found["read"], *[NOTHING] * 5])
            continue
        consistent = found["order_consistency"]
        leanings = [found["leanings"][of]["more"] for of in ("length", "format")]
        rows.append([
            name,
            found["read"],
            interval(accuracy["estimate"], accuracy["low"], accuracy["high"]),
            number(found["ece"], 3),
            NOTHING if consistent is None else percent(consistent),
            *(NOTHING if more is None else percent(more) for more in leanings),
        ])  # fmt: skip
    columns = [
        "reward",
        "pairs read",
        "accuracy",
        "calibration error",
        "same in both orders",
        "prefers the longer",
        "more marks",
    ]
    return Table(columns, rows, f"Rewards on {own['pairs']} test pairs; a tie counts half.")


def _differences(own: Record) -> list[Block]:
    rows: list[list[Cell]] = [
        [
            f"{row['first']} less {row['second']}",
            row["n"],
            interval(row["estimate"], row["low"], row["high"]),
            p_value(row["p_value"]),
        ]
        for row in own["differences"]
    ]
    heading = ["accuracy of", "pairs both read", "difference", "McNemar, Holm"]
    return [Table(heading, rows, "Two rewards on the same pairs.")] if rows else []


def _published(published: Record) -> list[Block]:
    rows: list[list[Cell]] = [
        [
            benchmark.replace("_", " "),
            name,
            scores["n"],
            NOTHING if scores["overall"] is None else number(scores["overall"], 3),
            scores["ties"],
        ]
        for name, found in published["rewards"].items()
        for benchmark, scores in found.items()
    ]
    refused = f" {len(published['refused'])} rows of their files were refused." if published["refused"] else ""
    heading = ["benchmark", "reward", "comparisons", "overall", "ties"]
    return (
        [Table(heading, rows, f"Published benchmarks, weighed as their authors do; ties are wrong.{refused}")]
        if rows
        else []
    )


def _effects(audit: pl.DataFrame) -> Table:
    known = audit.filter("identified").sort("reward", "attribute")
    rows: list[list[Cell]] = [
        [
            row["reward"], row["attribute"].replace("_", " "), row["n1"] + row["n0"],
            interval(row["ate"], row["ate_low"], row["ate_high"]), number(row["naive"], 2), number(row["single"], 2),
            NOTHING if not row["asymmetric"] else f"{number(row['band'], 2)} ({', '.join(row['asymmetric'])})",
        ]
        for row in known.to_dicts()
    ]  # fmt: skip
    heading = ["reward", "attribute", "responses", "pays (RATE)", "naive", "one rewrite", "rewriting may add"]
    caption = (
        "In units of the reward, log odds. Last: where rewriting touches other features more in one direction than in "
        "the other, by how much these could move the effect."
    )
    return Table(heading, rows, caption)


def _unknown(audit: pl.DataFrame) -> list[Block]:
    rows = [
        [row["reward"], row["attribute"].replace("_", " "), row["reason"]]
        for row in audit.filter(~pl.col("identified")).sort("reward", "attribute").to_dicts()
    ]
    return [Table(["reward", "attribute", "why"], rows, "Effects that are not identified.")] if rows else []
