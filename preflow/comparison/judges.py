"""Who judges the responses of policies: the program that knows the task, a reward, a language model."""

from pathlib import Path

import polars as pl

from preflow.comparison.endpoint import judge_pairs
from preflow.comparison.goals import at_goals, judges_of, picked_goals
from preflow.comparison.paired import BASELINE
from preflow.comparison.schemas import EndpointVerdicts, JudgedResponses
from preflow.endpoint.settings import Endpoint
from preflow.reward_models.scorer import Scorer
from preflow.world.gold import gold_rewards


def judged_responses(responses: pl.DataFrame, scorer: Scorer) -> pl.DataFrame:
    """`JudgedResponses`: gold rewards where the prompt is a task of the world, and rewards of `scorer`.

    Each response stands beside that of plain training to the same prompt, for a reward that only compares. What the
    scorer cannot read has no reward.
    """
    if responses.is_empty():
        return JudgedResponses.create_empty()
    keys = ["seed", "split", "prompt_group", "sample"]
    plain = responses.filter(pl.col("treatment") == BASELINE).unique(keys, keep="first", maintain_order=True)
    beside = responses.join(plain.select(*keys, reference="response"), on=keys, how="left", maintain_order="left")
    return JudgedResponses.cast(
        responses.with_columns(
            gold_rewards(responses["prompt"], responses["response"]).alias("gold"),
            reward=pl.Series(scorer.rewards(beside)).fill_nan(None),
            words=pl.col("response").str.count_matches(r"\S+").cast(pl.Int64),
        )
    )


def endpoint_verdicts(judged: pl.DataFrame, *, endpoint: Endpoint | None, answers: Path) -> pl.DataFrame:
    """`EndpointVerdicts` of the first test response of each policy against that of plain training, at the picked goals.

    None without an endpoint or without responses. See `preflow.comparison.endpoint.judge_pairs` for what is raised.
    """
    if endpoint is None or judged.is_empty():
        return EndpointVerdicts.create_empty()
    tested = at_goals(judged, picked_goals(judged, judges_of(judged)[0])).filter(pl.col("sample") == 0)
    keys = ["seed", "prompt_group", "sample"]
    baseline = tested.filter(pl.col("treatment") == BASELINE).select(*keys, baseline_response="response")
    pairs = tested.filter(pl.col("treatment") != BASELINE).join(baseline, on=keys).sort("treatment", *keys)
    return judge_pairs(pairs.with_columns(baseline=pl.lit(BASELINE)), endpoint=endpoint, answers=answers)
