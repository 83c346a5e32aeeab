"""The report's sections of triage and of the judge audit: what to do with each pair, and what a judge is worth."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from preflow.charts import histogram, recommendations_heatmap
from preflow.report.blocks import (
    Block,
    Details,
    Figure,
    FilterTable,
    Folds,
    Numbers,
    Passage,
    Section,
    Table,
    excerpt,
    interval,
    number,
    p_value,
    percent,
)
from preflow.triage.overview import Overview
from preflow.triage.rules import RULES

Record = Mapping[str, Any]


def triage_section(shown: Overview) -> Section:
    """What is recommended, by rule and by agreement class; pairs to filter; the first of the review queue in full."""
    actions = _by_action(shown.rules)
    total = sum(actions.values())
    finding = ", ".join(f"{_words(action)} {percent(n / total)}" for action, n in actions.items()) or "no comparison"
    lead = "Of each pair all that is known, and the first rule that holds. The queue begins with the look worth most."
    numbers = Numbers([(number(n), _words(action)) for action, n in actions.items()])
    blocks: list[Block] = [numbers, _rules(shown.rules, total)]
    if total:
        blocks += _charts(shown)
    if len(shown.queue):
        blocks.append(Folds([_looked_at(row) for row in shown.queue.iter_rows(named=True)]))
    if total:
        blocks.append(
            FilterTable("pairs-by-rule", _pairs(shown.examples), ["recommendation", "rule", "class", "source"])
        )
    return Section("triage", "Triage", f"Recommended: {finding}.", lead, blocks)


def _charts(shown: Overview) -> list[Figure]:
    doubts = histogram(
        {"P(turned)": shown.suspicion}, x_title="P(label is turned round)", description="Suspected flips."
    )
    return [
        Figure(recommendations_heatmap(shown.by_class), "What is recommended for each agreement class: comparisons."),
        Figure(doubts, "How many labels are doubted, and how much: shares of the labelled comparisons."),
    ]


def _by_action(counts: Sequence[Record]) -> dict[str, int]:
    """Comparisons by recommendation, most first."""
    actions: Counter[str] = Counter()
    for row in counts:
        actions[row["recommendation"]] += row["pairs"]
    return dict(sorted(actions.items(), key=lambda item: (-item[1], item[0])))


def _rules(counts: Sequence[Record], total: int) -> Table:
    pairs = {row["rule"]: row["pairs"] for row in counts}
    rows = [
        [_words(rule.name), _words(rule.recommendation), pairs[rule.name], percent(pairs[rule.name] / total), rule.why]
        for rule in RULES
        if rule.name in pairs
    ]
    headings = ["rule", "recommendation", "pairs", "share", "why"]
    return Table(headings, rows, "Rules in the order in which they are asked.")


def _pairs(examples: pl.DataFrame) -> Table:
    headings = ["recommendation", "rule", "class", "label", "votes", "P(turned)", "gap", "difficulty"]
    rows = [
        [
            _words(row["recommendation"]),
            _words(row["rule"]),
            _words(row["agreement_class"] or "no votes"),
            row["label"],
            row["n_votes"],
            number(row["suspected_flip"], 2),
            _gap(row),
            number(row["difficulty"], 2),
            ", ".join(_words(reason["label"]) for reason in row["reasons"] or []),
            row["source"],
            row["pair_id"][:8],
            excerpt(row["prompt"]),
        ]
        for row in examples.iter_rows(named=True)
    ]
    caption = "The pairs of every rule that are most worth a look; the whole table is triage/triage_table.parquet."
    return Table([*headings, "reasons", "source", "pair", "prompt"], rows, caption)


def _gap(row: Record) -> str:
    spread = row["gap_spread"]
    return number(row["reward_gap"], 2) + ("" if spread is None else f" \N{PLUS-MINUS SIGN} {number(spread, 2)}")


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
