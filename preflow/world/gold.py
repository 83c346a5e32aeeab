"""Gold rewards of whole tables of responses to the world's tasks."""

import polars as pl

from preflow.world.tasks import gold_reward, is_task


def gold_rewards(prompts: pl.Series, responses: pl.Series) -> pl.Series:
    """The reward from 0 to 10 of each response, [n]; null where the last message is no task of the world.

    `prompts` are chat messages; a goal that stands before the task does not change the reward.
    """
    tasks = [messages[-1]["content"] if messages else "" for messages in prompts.to_list()]
    rewards = [
        gold_reward(task, response) if is_task(task) else None
        for task, response in zip(tasks, responses.to_list(), strict=True)
    ]
    return pl.Series("gold", rewards, dtype=pl.Float64)
