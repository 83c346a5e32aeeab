"""Tiny Llama policies for the world: a size by name, supervised training on demonstrations, an early and a late one."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from preflow.lm.chat import Messages, encode
from preflow.lm.generate import sample
from preflow.lm.trainer import Example, train
from preflow.objectives import sft
from preflow.world.tasks import Task
from preflow.world.writers import Answer

# Width, layers, heads; the feed-forward layer is three times as wide. Parameters: 0.11, 0.37, 1.1 and 3.9 million.
SIZES: Mapping[str, tuple[int, int, int]] = {
    "tiny": (64, 2, 4),
    "small": (96, 3, 4),
    "medium": (144, 4, 4),
    "large": (224, 6, 4),
}
MAX_POSITIONS = 64
MAX_NEW_TOKENS = 24  # the longest right answer has 12, its style 7 and its end one
SAMPLING_BATCH = 128


def new_policy(size: str, tokenizer: PreTrainedTokenizerFast, *, seed: int) -> LlamaForCausalLM:
    """A Llama with random weights for the world's tokenizer.

    Raises
    ------
    ValueError
        The size is unknown.
    """
    if size not in SIZES:
        raise ValueError(f"unknown size {size!r}: known are {', '.join(SIZES)}")
    width, layers, heads = SIZES[size]
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


class Policies(NamedTuple):
    """Two stages of one training."""

    early: PreTrainedModel
    late: PreTrainedModel
    history: list[dict[str, float]]


def demonstrated_policy(
    size: str,
    tokenizer: PreTrainedTokenizerFast,
    demonstrations: Sequence[tuple[Messages, str]],
    *,
    steps: int,
    early_step: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> Policies:
    """A new policy after supervised training on the demonstrations, and as it was after `early_step` steps.

    Raises
    ------
    ValueError
        The size is unknown, or `early_step` is not one of the steps.
    """
    if not 0 < early_step <= steps:
        raise ValueError(f"early_step is {early_step}, but it has to be one of the {steps} steps")
    prompts, responses = zip(*demonstrations, strict=True)
    limits = {"max_prompt_tokens": MAX_POSITIONS, "max_response_tokens": MAX_POSITIONS}
    encoded = encode(tokenizer, prompts, responses, **limits)
    copies: list[PreTrainedModel] = []
    trained = train(
        new_policy(size, tokenizer, seed=seed),
        [Example(row) for row in encoded.rows.values()],
        sft,
        steps=steps,
        batch_size=batch_size,
        micro_batch_size=batch_size,
        learning_rate=learning_rate,
        schedule="cosine",
        warmup_share=0.1,
        order="shuffled",  # batches of one length would be batches of one level, from which little is learnt
        seed=seed,
        bf16=False,
        log_steps=50,
        probe=lambda _, model: copies.append(deepcopy(model)),
        probe_steps=[early_step],
    )
    return Policies(copies[0], trained.model, trained.history)


def sampled_answers(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Sequence[Task],
    *,
    writer: str,
    temperature: float,
    seed: int,
) -> list[Answer]:
    """One answer of a policy to each task; the writer is named `writer@temperature`."""
    texts = sample(
        model,
        tokenizer,
        [[{"role": "user", "content": task.prompt}] for task in tasks],
        max_prompt_tokens=MAX_POSITIONS,
        max_new_tokens=MAX_NEW_TOKENS,
        temperature=temperature,
        seed=seed,
        batch_size=SAMPLING_BATCH,
    )
    return [Answer(task.prompt, text, f"{writer}@{temperature}") for task, text in zip(tasks, texts, strict=True)]
