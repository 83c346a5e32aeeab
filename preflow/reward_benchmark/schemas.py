"""The table of benchmark items; apart from its code, so that knowing it needs no torch."""

import dataframely as dy

from preflow.schemas import messages_column

BENCHMARKS = ("reward_bench", "rm_bench", "judge_bench", "help_steer")


class BenchmarkItems(dy.Schema):
    """One row per comparison that a reward should decide: chosen is the better response."""

    benchmark = dy.Enum(BENCHMARKS, primary_key=True, description="Which benchmark.")
    item = dy.String(
        primary_key=True, min_length=1, description="The item's id in the file; its line where it has none."
    )
    part = dy.String(primary_key=True, description="Which comparison of the item; empty where there is one.")
    subset = dy.String(min_length=1, description="Subset, source or difficulty, as the benchmark names it.")
    group = dy.String(min_length=1, description="Category or domain over which the benchmark averages.")
    prompt = messages_column("Chat messages before the responses.")
    chosen = dy.String(min_length=1, description="The better response.")
    rejected = dy.String(min_length=1, description="The other response.")
