"""Who judges the responses of policies: the program that knows the task, the reward model, a language model."""

from pathlib import Path

import polars as pl
import torch

from preflow.comparison.endpoint import judge_pairs
from preflow.comparison.goals import at_goals, judges_of, picked_goals
from preflow.comparison.paired import BASELINE
from preflow.comparison.schemas import EndpointVerdicts, JudgedResponses
from preflow.endpoint.settings import Endpoint
from preflow.reward.baseline import BradleyTerryReward, reward_inputs
from preflow.reward.encoder import embed_texts, load_encoder
from preflow.store import ArrayStore
from preflow.world.gold import gold_rewards


def judged_responses(
    responses: pl.DataFrame, reward_model: Path, *, batch_size: int, max_tokens: int, store: Path, threads: int
) -> pl.DataFrame:
    """`JudgedResponses`: gold rewards where the prompt is a task of the world, and rewards of the saved reward model.

    An empty response is embedded as a blank. See `preflow.reward.encoder.embed_texts` for the settings.
    """
    if responses.is_empty():
        return JudgedResponses.create_empty()
    torch.set_num_threads(threads)
    model = BradleyTerryReward.from_pretrained(reward_model)
    texts = responses["response"].replace("", " ")
    distinct = texts.unique().sort()
    embeddings = embed_texts(
        distinct.to_list(),
        load_encoder(model.encoder),
        batch_size=batch_size,
        max_tokens=max_tokens,
        store=ArrayStore(store),
    )
    rewards = model(torch.from_numpy(reward_inputs(distinct.to_list(), embeddings))).numpy()
    return JudgedResponses.cast(
        responses.with_columns(
            gold_rewards(responses["prompt"], responses["response"]).alias("gold"),
            texts.replace_strict(distinct, pl.Series(rewards), return_dtype=pl.Float64).alias("reward"),
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
