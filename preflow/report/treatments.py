"""The report's section of the trained policies: what each treatment is worth."""

from collections.abc import Mapping
from typing import Any

from preflow import charts
from preflow.comparison.paired import BASELINE
from preflow.report.blocks import (
    Block,
    Figure,
    Section,
    Table,
    Text,
    interval,
    number,
    p_value,
    percent,
)
from preflow.treatments import goals

WORTH = "What each treatment is worth"
JUDGES = {"gold": "the program that knows the task", "reward": "the reward model", "endpoint": "the language model"}

Record = Mapping[str, Any]


def worth(summary: Record, trained_on: Mapping[str, int]) -> Section:
    """What each treatment is worth against plain training.

    Parameters
    ----------
    summary
        That of `preflow.comparison.summary`.
    trained_on
        Pairs that each treatment's policy was trained on, by treatment; empty for no such column.
    """
    lead = (
        "Policies that start alike, each trained on differently treated pairs. Untreated is plain DPO on all pairs, "
        "start no preference training. Intervals and tests take the prompt as unit: they speak of "
        "these trained policies, and the differences by seed show how much a new training moves."
    )
    if "not_measured" in summary:
        return Section("worth", WORTH, f"Not measured: {summary['not_measured']}.", lead)
    blocks: list[Block] = [_worth_table(summary, trained_on), *_differences(summary)]
    return Section("worth", WORTH, _worth_found(summary), lead, [*blocks, *_obedience(summary), *_likelihood(summary)])


def _worth_found(summary: Record) -> str:
    """Which treatments beat plain training, which lose to it and which cannot be told from it, in a sentence or two."""
    judge = summary["judges"][0]
    contrasts = sorted(_against_untreated(summary, judge), key=lambda row: (-row["difference"], row["treatment"]))
    if not contrasts:
        return f"Only {_name(BASELINE)} was judged: there is nothing to compare."
    clear = [row for row in contrasts if row["separable"]]
    groups = {
        "better than untreated": [row for row in clear if row["difference"] > 0],
        "worse than untreated": [row for row in clear if row["difference"] < 0],
        "not separable from untreated": [row for row in contrasts if not row["separable"]],
    }
    said = [f"{verdict}: {', '.join(map(_said, rows))}" for verdict, rows in groups.items() if rows]
    prompts = number(max(row["n_prompts"] for row in contrasts))
    return f"On {prompts} test prompts, judged by {JUDGES[judge]}; {'; '.join(said)}."


def _said(row: Record) -> str:
    return f"{_name(row['treatment'])} ({'+' if row['difference'] > 0 else ''}{number(row['difference'], 2)})"


def _worth_table(summary: Record, trained_on: Mapping[str, int]) -> Table:
    """A row per policy, the best first, by the first judge."""
    judge = summary["judges"][0]
    against = {row["treatment"]: row for row in _against_untreated(summary, judge)}
    policies = sorted(_of(summary["policies"], judge), key=lambda row: (-row["mean"], row["treatment"]))
    contrasts = [against.get(row["treatment"], {}) for row in policies]
    columns: dict[str, list[Any]] = {
        "treatment": [_name(row["treatment"]) for row in policies],
        "pairs trained on": [trained_on.get(row["treatment"]) for row in policies],
        "goal": [None if row["goal"] is None else goals.number(row["goal"]) for row in policies],
        "mean score [95 %]": [_interval(row, "mean") for row in policies],
        "minus untreated [95 %]": [_interval(row, "difference") for row in contrasts],
        "adjusted p": [p_value(row.get("p_adjusted")) for row in contrasts],
        "win rate": [percent(row.get("win_rate")) for row in contrasts],
        "words": [number(row["words"], 1) for row in policies],
    }
    shown = {heading: cells for heading, cells in columns.items() if any(cell is not None for cell in cells)}
    caption = (
        f"Scores by {JUDGES[judge]}, on test prompts, at the goal picked on validation. p of a sign-flip test over "
        "prompts, adjusted for all contrasts of the judge (Holm)."
    )
    return Table(list(shown), list(zip(*shown.values(), strict=True)), caption)


def _differences(summary: Record) -> list[Block]:
    """The forest plot by the first judge, and all contrasts of all judges."""
    judge = summary["judges"][0]
    if not _against_untreated(summary, judge):
        return []
    caption = f"Mean score minus that of untreated, by {JUDGES[judge]}. Blue: separable."
    figure = Figure(charts.treatment_differences(summary), caption)
    return [figure, _contrast_table(summary), *map(_position, summary["position_bias"])]


def _contrast_table(summary: Record) -> Table:
    """Every contrast of every judge with its differences by seed."""
    rows = []
    for row in summary["contrasts"]:
        seeds = [one for one in summary["seed_differences"] if all(one[key] == row[key] for key in _CONTRAST)]
        name = "win_rate" if row["difference"] is None else "difference"
        by_seed = ", ".join(number(one[name], 2) for one in seeds)
        counts = f"{number(row['wins'])} / {number(row['ties'])} / {number(row['losses'])}"
        against = f"{_name(row['treatment'])} against {_name(row['baseline'])}"
        test = [p_value(row["p_adjusted"]), "yes" if row["separable"] else "no"]
        found = [_interval(row, "difference"), by_seed, _interval(row, "win_rate"), counts]
        rows.append([row["judge"], against, *found, *test])
    headings = ["judge", "contrast", "difference [95 %]", "by seed", "win rate [95 %]", "won / tied / lost"]
    caption = "Every contrast. By seed: the difference in each training; of the language model its win rate."
    return Table([*headings, "adjusted p", "separable"], rows, caption)


def _position(bias: Record) -> Text:
    """What a judge of pairs makes of their order."""
    unclear = f"; {number(bias['n_unclear'])} answers were no verdict" if bias["n_unclear"] else ""
    return Text(
        f"Of {number(bias['n_preferences'])} preferences of {JUDGES[bias['judge']]}, each pair asked in both orders, "
        f"{_interval(bias, 'for_first')} were for the response that came first (0.5: no position bias){unclear}."
    )


def _obedience(summary: Record) -> list[Block]:
    """Whether the goal is obeyed: its curve and its range, by the first judge."""
    judge = summary["judges"][0]
    control = _of(summary["goal_control"], judge)
    if not control:
        return [Text("No policy was asked for a goal.")]
    curve = charts.treatment_goal_control(summary)
    rows = [[_name(row["treatment"]), number(row["spearman"], 2), _interval(row, "range")] for row in control]
    headings = ["asked for a goal", "Spearman", "highest minus lowest [95 %]"]
    caption = "Does the mean score follow the goal? A policy that knows no goals is the control."
    return [Figure(curve, f"Mean score by goal asked for, by {JUDGES[judge]}."), Table(headings, rows, caption)]


def _likelihood(summary: Record) -> list[Block]:
    """What became of the probability of the data's own responses."""
    against = {row["treatment"]: row for row in summary["drift_contrasts"]}
    accuracy = {row["treatment"]: row for row in summary["accuracy"]}
    drift = {row["treatment"]: row for row in summary["drift"]}
    blocks: list[Block] = []
    if not drift:
        blocks.append(Text(f"No rejected response has a score of {number(summary['good_score'], 1)} or more."))
    rows = [
        [
            _name(name),
            *(_interval(drift.get(name, {}), side) for side in ("drift_rejected", "drift_chosen")),
            _interval(against.get(name, {}), "difference"),
            p_value(against.get(name, {}).get("p_adjusted")),
            _interval(accuracy.get(name, {}), "accuracy"),
        ]
        for name in sorted(drift.keys() | accuracy.keys())
    ]
    headings = ["treatment", "good rejected [95 %]", "their chosen [95 %]", "minus untreated [95 %]", "adjusted p"]
    caption = (
        f"Log-probability gained since start, in nats, on train pairs whose rejected response has a score of "
        f"{number(summary['good_score'], 1)} or more: far below zero, it was unlearned. Accuracy: test pairs whose "
        "chosen response gained more than the rejected one."
    )
    return [*blocks, Table([*headings, "accuracy [95 %]"], rows, caption)] if rows else blocks


_CONTRAST = ("judge", "treatment", "baseline")


def _against_untreated(summary: Record, judge: str) -> list[Record]:
    return [row for row in _of(summary["contrasts"], judge) if row["baseline"] == BASELINE]


def _of(records: list[Record], judge: str) -> list[Record]:
    return [row for row in records if row["judge"] == judge]


def _interval(row: Record, name: str) -> str:
    """An estimate of a record with its interval; a dash where the record has none."""
    return interval(row.get(name), row.get(f"{name}_low"), row.get(f"{name}_high"))


def _name(name: str) -> str:
    return name.replace("_", " ")
