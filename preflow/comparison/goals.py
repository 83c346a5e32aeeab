"""Which goal to ask a goal-conditioned policy for, and whether it obeys.

The goal is picked on validation prompts and used on test prompts. A policy that also answered without a goal is not
goal-conditioned: it is compared without one, and its answers under goals are the control.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl

from preflow.comparison.paired import Record, named, rank_correlation
from preflow.evaluation import bootstrap_interval, paired_bootstrap
from preflow.treatments.validation import best_on_validation

JUDGES = ("gold", "reward")
"""The judges that score single responses; the first that scored any picks the goals."""


def judges_of(judged: pl.DataFrame) -> list[str]:
    """The judges that scored a response of `judged` (`JudgedResponses`).

    Raises
    ------
    ValueError
        None did.
    """
    judges = [judge for judge in JUDGES if judged[judge].count()]
    if not judges:
        raise ValueError(
            f"no judge of {JUDGES} scored any of {len(judged)} responses; without a score use not_measured"
        )
    return judges


def picked_goals(judged: pl.DataFrame, judge: str) -> dict[str, float | None]:
    """The goal of each treatment with the best mean on validation prompts; None for one that answers without a goal.

    Raises
    ------
    ValueError
        A goal-conditioned treatment was not measured under each goal on the same validation prompts.
    """
    scored = scores_by(judged, judge)
    return {name: _pick(name, rows) for (name,), rows in scored.partition_by("treatment", as_dict=True).items()}


def at_goals(judged: pl.DataFrame, goals: Mapping[str, float | None]) -> pl.DataFrame:
    """The test responses of the treatments in `goals`, each at its goal.

    Raises
    ------
    ValueError
        A treatment answered no test prompt under its goal.
    """
    wanted = pl.DataFrame(
        {"treatment": list(goals), "goal": list(goals.values())}, schema={"treatment": pl.String, "goal": pl.Float64}
    )
    test = judged.filter(pl.col("split") == "test")
    found = test.join(wanted, on=["treatment", "goal"], how="semi", nulls_equal=True)
    silent = sorted(set(goals) - set(found["treatment"]))
    if silent:
        asked = {name: goals[name] for name in silent}
        raise ValueError(f"no test response of {asked} (treatment: goal): sample the test prompts under this goal")
    return found


def goal_curve(judged: pl.DataFrame, judge: str, *, rounds: int, seed: int) -> list[Record]:
    """Mean score on test per treatment and goal asked for, with its interval over prompts."""
    return [
        {"judge": judge, "treatment": name, "goal": goal, "n_prompts": len(values)}
        | named(bootstrap_interval(values, None, rounds=rounds, seed=seed), "mean")
        for name, by_goal in _asked_on_test(judged, judge).items()
        for goal, values in by_goal.items()
    ]


def goal_control(judged: pl.DataFrame, judge: str, *, rounds: int, seed: int) -> list[Record]:
    """Per treatment: Spearman of goal and mean on test, and the mean at the highest goal minus at the lowest."""
    records = []
    for name, by_goal in _asked_on_test(judged, judge).items():
        values = list(by_goal.values())
        means = [float(row.mean()) for row in values]
        span = paired_bootstrap(values[-1], values[0], None, rounds=rounds, seed=seed)
        follows = rank_correlation(list(by_goal), means)
        records.append(
            {"judge": judge, "treatment": name, "goals": len(means), "spearman": follows} | named(span, "range")
        )
    return records


def scores_by(judged: pl.DataFrame, judge: str) -> pl.DataFrame:
    """What `judge` scored, one row per response, sorted: the score is `value`, the sample `item`."""
    keys = ["treatment", "seed", "split", "prompt_group", "goal", "sample"]
    columns = [*keys[:-1], pl.col("sample").alias("item"), pl.col(judge).alias("value"), "words"]
    return judged.filter(pl.col(judge).is_not_null()).sort(keys).select(columns)


def _pick(treatment: str, rows: pl.DataFrame) -> float | None:
    if rows["goal"].null_count():
        return None
    validation = rows.filter(pl.col("split") == "validation")
    if validation.is_empty():
        raise ValueError(f"{treatment} answered no validation prompt: its goal cannot be picked, and never is on test")
    return best_on_validation(_by_goal(treatment, validation))


def _asked_on_test(judged: pl.DataFrame, judge: str) -> dict[str, dict[float, np.ndarray]]:
    """Per treatment that was asked for goals on test: per goal, in ascending order, one value a prompt."""
    asked = scores_by(judged, judge).filter(pl.col("split") == "test", pl.col("goal").is_not_null())
    parts = asked.partition_by("treatment", as_dict=True)
    return {name: _by_goal(name, rows) for (name,), rows in parts.items()}


def _by_goal(treatment: str, rows: pl.DataFrame) -> dict[float, np.ndarray]:
    """Per goal the mean over seeds and samples of each prompt, prompts in one order."""
    means = rows.group_by("goal", "prompt_group", maintain_order=True).agg(pl.col("value").mean())
    parts = means.sort("goal", "prompt_group").partition_by("goal", as_dict=True)
    if len({tuple(part["prompt_group"]) for part in parts.values()}) > 1:
        counts = {goal: len(part) for (goal,), part in parts.items()}
        raise ValueError(f"{treatment} answered different prompts under its goals ({counts}); sample the same for each")
    return {goal: part["value"].to_numpy() for (goal,), part in parts.items()}
