"""How fast the world's policies answer: `python -m benchmarks.generation` prints a Markdown table (one thread).

A token is one that belongs to a response, its end included; what a batch computes beyond the end of a response does
not count. Weights are random, so that responses run up to the limit unless an end is drawn (1 in 90 tokens).
"""

from time import process_time

import numpy as np
import torch
import typer

from preflow.distil.language import PAD
from preflow.distil.prompt_sources import world_prompts
from preflow.distil.transformer import Running, Transformer, UserTurns
from preflow.policies.policy import Policy
from preflow.world.policy import MAX_NEW_TOKENS, MAX_POSITIONS, SIZES, new_policy
from preflow.world.tokenizer import world_tokenizer

BATCHES = (1, 16, 64, 256)
RESPONSES = {1: 16, 16: 128, 64: 512, 256: 512}
"""Responses that a batch size is measured on."""


def tokens_per_second(size: str, batch: int) -> float:
    """Response tokens a CPU-second of new policies of this size."""
    tokenizer = world_tokenizer()
    running = Running(
        max_prompt_tokens=MAX_POSITIONS, max_response_tokens=MAX_NEW_TOKENS, sampling_batch=batch,
        micro_batch_size=None, bf16=False,
    )  # fmt: skip
    model = Transformer(Policy(new_policy(size, tokenizer, seed=0), tokenizer), running, name=size)
    turns = UserTurns(tuple(world_prompts(RESPONSES[batch], np.random.default_rng(0))))
    model.sample(turns[torch.arange(2)], torch.Generator().manual_seed(0))
    start = process_time()
    responses = model.sample(turns, torch.Generator().manual_seed(0))
    return float((responses != PAD).sum()) / (process_time() - start)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    typer.echo("| size | " + " | ".join(f"batch {batch}" for batch in BATCHES) + " |\n|---" + "|---" * 4 + "|")
    for size in SIZES:
        row = (f"{tokens_per_second(size, batch):,.0f}" for batch in BATCHES)
        typer.echo(f"| {size} | " + " | ".join(row) + " |")


if __name__ == "__main__":
    typer.run(main)
