"""The report's section of concepts: what each loss is worth under noisy concept labels, and which labels to doubt."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from preflow.charts import concept_front, intervention_lines
from preflow.report.blocks import Block, Figure, Numbers, Section, Table, interval, number, p_value, percent

Record = Mapping[str, Any]
MEASURES = {
    "concept_auc": "concept AUC",
    "task_accuracy": "task accuracy",
    "memorised": "flips learned by heart",
    "concept_ece": "calibration error",
}


def concepts(counts: Record, found: Record, rates: pl.DataFrame) -> Section:
    """Losses compared on one data set, and the doubted labels.

    Parameters
    ----------
    counts
        That of `preflow.concepts.schemas.ConceptData`.
    found
        That of `preflow.concepts.measured.concept_report`.
    rates
        `FlipRates`.
    """
    lead = (
        "Concept bottlenecks trained on noisy labels. Each loss is tried with the same weights, and the one that "
        "noisy validation likes best is measured on labels before noise. Intervals are over seeds."
    )
    doubts, cells, baseline = found["doubts"], counts["cells"], found["baseline"]
    front = concept_front(pl.DataFrame(found["front"]), baseline=baseline)
    corrected = intervention_lines(pl.DataFrame(found["interventions"]), baseline=baseline)
    blocks: list[Block] = [
        Numbers(
            [
                (sum(counts["items"].values()), "items"),
                (counts["concepts"], "concepts"),
                (cells["kept"], "labels kept"),
                (cells["refused"], "labels refused"),
                (doubts["planted"], "flips planted in train"),
            ]
        ),
        _methods(found["methods"]),
        Figure(front, "Every loss and weight; filled: passed by no other in both. Grey is the baseline."),
        _tests(found["against_baseline"], baseline),
        Figure(
            corrected,
            "What corrected concepts are worth: cooperative order solid, by uncertainty dashed, at random dotted.",
        ),
        _noisiest(rates),
    ]
    return Section("concepts", "Concepts under noisy labels", _finding(found), lead, blocks)


def _finding(found: Record) -> str:
    doubts = found["doubts"]
    better = [
        f"{row['method']} {number(row['difference'])} in {MEASURES[row['metric']]}"
        for row in found["against_baseline"]
        if row["p_adjusted"] < 0.05 and row["metric"] in ("concept_auc", "task_accuracy")
    ]
    said = f"Against {found['baseline']}: " + (", ".join(better) if better else "no loss differs surely") + "."
    if not doubts["planted"]:
        return said
    return f"{said} Of the {number(doubts['planted'])} most doubted labels {percent(doubts['queue'])} are wrong."


def _methods(methods: Sequence[Record]) -> Table:
    rows = [
        [
            row["method"],
            ", ".join(f"{weight:g}" for weight in row["lambdas"]),
            *(interval(*(row[name][part] for part in ("mean", "low", "high"))) for name in MEASURES),
        ]
        for row in methods
    ]
    caption = "Each loss with the weights (lambda) that noisy validation chose, one a seed; on test, 95 % intervals."
    return Table(["loss", "lambda", *MEASURES.values()], rows, caption)


def _tests(tests: Sequence[Record], baseline: str) -> Table:
    rows = [
        [
            row["method"],
            MEASURES[row["metric"]],
            interval(row["difference"], row["low"], row["high"]),
            f"{row['positive']} of {row['seeds']}",
            p_value(row["p_adjusted"]),
        ]
        for row in tests
    ]
    caption = f"Minus {baseline}, paired by seed; p after Holm."
    return Table(["loss", "measure", "difference", "seeds above", "p"], rows, caption)


def _noisiest(rates: pl.DataFrame) -> Table:
    first = rates.sort("flip_rate", "concept", descending=[True, False]).head(8)
    rows = [[row["concept"], row["cells"], percent(row["flip_rate"])] for row in first.iter_rows(named=True)]
    caption = (
        "The concepts whose labels seem noisiest; each label with P(wrong): concepts/doubted_concept_labels.parquet."
    )
    return Table(["concept", "labels", "estimated flips"], rows, caption)
