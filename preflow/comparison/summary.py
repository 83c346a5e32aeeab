"""The whole comparison as one JSON-able dict of flat records, for DVC metrics and the report."""

from typing import Any

import polars as pl

from preflow.comparison.contrasts import endpoint_contrasts, policy_scores, position_bias, score_contrasts
from preflow.comparison.goals import at_goals, goal_control, goal_curve, judges_of, picked_goals, scores_by
from preflow.comparison.likelihood import drift_contrasts, drifts, implicit_accuracies
from preflow.comparison.paired import Record


def not_measured(reason: str) -> dict[str, str]:
    """The summary of a comparison that did not take place, with the reason as a part of a sentence."""
    return {"not_measured": reason}


def summarise_comparison(
    judged: pl.DataFrame,
    verdicts: pl.DataFrame,
    logprobs: pl.DataFrame,
    *,
    good_score: float,
    rounds: int,
    seed: int,
) -> dict[str, Any]:
    """Scores, contrasts, goal control, drift and accuracy of the trained policies, with intervals and tests.

    Parameters
    ----------
    judged
        `JudgedResponses` to validation and test prompts; goals are picked on the first, all else is of the second.
    verdicts
        `EndpointVerdicts`, may be empty.
    logprobs
        `PolicyLogprobs`, may be empty.
    good_score
        From which score on a rejected response is a good one.
    rounds
        Bootstrap rounds.
    seed
        Of the bootstrap and of the sign-flip tests.

    Returns
    -------
    `judges` and `good_score`, and lists of records: `goals`, `policies`, `contrasts`, `seed_differences`,
    `goal_curve`, `goal_control`, `drift`, `drift_contrasts`, `accuracy`, `position_bias` (of the endpoint, where it was
    asked). An estimate `x` has its 95 % interval in `x_low` and `x_high`; what does not exist is None.

    Raises
    ------
    ValueError
        No judge scored, a response or pair comes twice, a goal-conditioned policy has no validation responses, there is
        no `untreated`, or compared policies were measured on different items.
    """
    _check_once(judged, ["treatment", "seed", "split", "prompt_group", "goal", "sample"], "responses")
    _check_once(logprobs, ["treatment", "seed", "pair_id"], "log-probabilities")
    resampling: dict[str, int] = {"rounds": rounds, "seed": seed}
    judges = judges_of(judged)
    goals = picked_goals(judged, judges[0])
    summary: dict[str, Any] = {
        "judges": judges,
        "good_score": good_score,
        "goals": [{"judge": judges[0], "treatment": name, "goal": goal} for name, goal in goals.items()],
        "policies": [],
        "contrasts": [],
        "seed_differences": [],
        "goal_curve": [row for judge in judges for row in goal_curve(judged, judge, **resampling)],
        "goal_control": [row for judge in judges for row in goal_control(judged, judge, **resampling)],
        "drift": drifts(logprobs, good_score=good_score, **resampling),
        "drift_contrasts": drift_contrasts(logprobs, good_score=good_score, **resampling),
        "accuracy": implicit_accuracies(logprobs, **resampling),
        "position_bias": [],
    }
    tested = at_goals(judged, goals)
    for judge in judges:
        scores = scores_by(tested, judge)
        summary["policies"] += _of(judge, policy_scores(scores, **resampling))
        _add(summary, judge, score_contrasts(scores, **resampling))
    if len(verdicts):
        summary["judges"] = [*judges, "endpoint"]
        _add(summary, "endpoint", endpoint_contrasts(verdicts, **resampling))
        summary["position_bias"] = _of("endpoint", position_bias(verdicts, **resampling))
    return summary


def _add(summary: dict[str, Any], judge: str, found: tuple[list[Record], list[Record]]) -> None:
    contrasts, by_seed = found
    summary["contrasts"] += _of(judge, contrasts)
    summary["seed_differences"] += _of(judge, by_seed)


def _of(judge: str, records: list[Record]) -> list[Record]:
    return [{"judge": judge} | record for record in records]


def _check_once(frame: pl.DataFrame, keys: list[str], what: str) -> None:
    repeated = frame.filter(pl.struct(keys).is_duplicated()).sort(keys)
    if len(repeated):
        first = repeated.select(keys).row(0, named=True)
        raise ValueError(f"{len(repeated)} {what} share their key, first {first}: measure each once")
