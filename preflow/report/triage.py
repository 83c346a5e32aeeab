"""The report's sections of triage and of the judge audit: what to do with each pair, and what a judge is worth."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from preflow.report.blocks import (
    Block,
    Details,
    Folds,
    Numbers,
    Passage,
    Section,
    Table,
    interval,
    number,
    p_value,
    percent,
)
from preflow.triage.rules import RULES

EXAMPLES = 20  # of the review queue
Record = Mapping[str, Any]


def triage_section(counts: Sequence[Record], queue: pl.DataFrame) -> Section:
    """How many pairs each rule decided, and the first of the review queue with their full texts.

    `counts` is that of `preflow.triage.table.recommendation_counts`, `queue` that of `review_queue`.
    """
    pairs = {row["rule"]: row["pairs"] for row in counts}
    total = sum(pairs.values())
    by_action: dict[str, int] = {}
    for row in counts:
        by_action[row["recommendation"]] = by_action.get(row["recommendation"], 0) + row["pairs"]
    rows = [
        [_words(rule.name), _words(rule.recommendation), pairs[rule.name], percent(pairs[rule.name] / total), rule.why]
        for rule in RULES
        if rule.name in pairs
    ]
    shown = sorted(by_action.items(), key=lambda item: (-item[1], item[0]))
    finding = ", ".join(f"{_words(action)} {percent(n / total)}" for action, n in shown) or "no comparison"
    lead = "Of each pair all that is known, and the first rule that holds. The queue begins with the look worth most."
    blocks: list[Block] = [
        Numbers([(number(n), _words(action)) for action, n in shown]),
        Table(["rule", "recommendation", "pairs", "share", "why"], rows, "Rules in the order in which they are asked."),
    ]
    if len(queue):
        blocks.append(Folds([_looked_at(row) for row in queue.head(EXAMPLES).iter_rows(named=True)]))
    return Section("triage", "Triage", f"Recommended: {finding}.", lead, blocks)


def judge_section(audits: Mapping[str, Record]) -> Section:
    """Each judge's audit, by name; an audit is that of `preflow.judges.audit.judge_audit`."""
    lead = "A judge that names a winner where people differ is sure of what has no answer. Intervals count prompts."
    if not audits:
        return Section("judges", "Judges", "Not measured: no judge voted beside people.", lead)
    headings = ["judge", "agreed", "tied", "diverging", "diverging minus agreed", "p", "right", "longer wins"]
    rows = [[name, *_audited(audits[name])] for name in sorted(audits)]
    caption = "Winner rates by agreement class with 95 % intervals; right: the winner is the response people agree on."
    apart = [audit["diverging_minus_preference"] for audit in audits.values() if audit["diverging_minus_preference"]]
    as_often = sum(one["low"] <= 0 <= one["high"] for one in apart)
    finding = f"{as_often} of {len(apart)} judges name a winner on diverging pairs as often as on agreed ones."
    return Section("judges", "Judges", finding, lead, [Table(headings, rows, caption)])


def _audited(audit: Record) -> list[str]:
    rates = [_estimate(audit["winner_rate"][name]) for name in ("preference", "tie", "diverging")]
    difference, length = audit["diverging_minus_preference"], audit["length"]
    test = p_value(difference["p_value"] if difference else None)
    return [
        *rates,
        _estimate(difference),
        test,
        _estimate(audit["agreed_winner"]),
        _estimate(length and length["longer_wins"]),
    ]


def _estimate(found: Record | None) -> str:
    return interval(*((found or {}).get(name) for name in ("estimate", "low", "high")))


def _looked_at(row: Record) -> Details:
    facts = [
        f"worth {number(row['expected_value'], 2)}",
        f"label {number(row['label'])}",
        f"P(turned) {number(row['suspected_flip'], 2)}",
        f"{row['n_votes']} votes",
        f"pair {row['pair_id'][:8]}",
    ]
    texts = [Passage("prompt", row["prompt"]), Passage("a", row["response_a"]), Passage("b", row["response_b"])]
    return Details(f"{_words(row['rule'])}: {_words(row['recommendation'])}", " · ".join(facts), texts)


def _words(name: str) -> str:
    return name.replace("_", " ")
