"""The table of benchmark items; apart from its code, so that knowing it needs no torch."""

import dataframely as dy

from preflow.schemas import messages_column

BENCHMARKS = ("reward_bench", "rm_bench", "judge_bench", "help_steer")


class BenchmarkItems(dy.Schema):
    """One row per comparison that a reward should decide: chosen is the better response."""

    benchmark = dy.Enum(BENCHMARKS, primary_key=True, description="Which benchmark.")
    file = dy.String(primary_key=True, min_length=1, description="File of the item, below the folder of benchmarks.")
    line = dy.Int64(primary_key=True, min=1, description="Line (or element, from 1) in the file.")
    part = dy.String(primary_key=True, description="Which comparison of the line; empty where there is one.")
    item = dy.String(min_length=1, description="The item's id as the file has it; its line where it has none.")
    subset = dy.String(min_length=1, description="Subset, source or difficulty, as the benchmark names it.")
    group = dy.String(min_length=1, description="Category or domain over which the benchmark averages.")
    prompt = messages_column("Chat messages before the responses.")
    chosen = dy.String(min_length=1, description="The better response.")
    rejected = dy.String(min_length=1, description="The other response.")
    strength = dy.Float64(nullable=True, min=0, description="By how much chosen was scored higher, where scored.")
