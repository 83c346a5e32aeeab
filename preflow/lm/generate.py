"""Samples responses from a policy: each depends on the seed, its prompt and its place, not on how prompts are batched.

Sampling is the Gumbel-max trick: argmax(logits / temperature + Gumbel noise) has the distribution
softmax(logits / temperature), and the noise of a prompt is drawn from a generator of its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, PreTrainedModel, PreTrainedTokenizerFast

from preflow.lm.chat import Messages, Prompt, encode_prompts


def sample(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[Messages],
    *,
    max_prompt_tokens: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    batch_size: int,
) -> list[str]:
    """One response to each prompt, without its end-of-turn token; at most `max_new_tokens` tokens.

    Parameters
    ----------
    temperature
        0 takes the most probable token at every step.

    Raises
    ------
    ValueError
        A prompt is refused by `encode_prompts`; drop those first.
    """
    encoded = encode_prompts(tokenizer, prompts, max_prompt_tokens=max_prompt_tokens)
    if encoded.refused:
        raise ValueError(f"cannot answer {len(encoded.refused)} of {len(prompts)} prompts: {encoded.counts}")
    ids = sample_ids(
        model,
        [encoded.rows[row] for row in range(len(prompts))],
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        batch_size=batch_size,
    )
    texts: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True)
    return texts


def sample_ids(
    model: PreTrainedModel,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    batch_size: int,
) -> list[list[int]]:
    """As `sample`, from encoded prompts to token ids, each with its end-of-turn token where it came to one."""
    responses: list[list[int]] = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda row: (len(prompts[row].ids), row))
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        noise = _Gumbel([np.random.default_rng([seed, row]) for row in rows], temperature)
        found = _generate(model, [prompts[row] for row in rows], noise, max_new_tokens)
        for row, ids in zip(rows, found, strict=True):
            responses[row] = ids
    return responses


class _Gumbel(LogitsProcessor):
    def __init__(self, generators: Sequence[np.random.Generator], temperature: float) -> None:
        self.generators, self.temperature = generators, temperature

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002
        if self.temperature == 0:
            return scores
        noise = np.stack([generator.gumbel(size=scores.shape[1]) for generator in self.generators])
        return scores.float() / self.temperature + torch.from_numpy(noise.astype(np.float32)).to(scores.device)


@torch.no_grad()
def _generate(
    model: PreTrainedModel, prompts: Sequence[Prompt], noise: _Gumbel, max_new_tokens: int
) -> list[list[int]]:
    """Token ids of the responses, up to the end-of-turn token."""
    ends = {prompt.end_of_turn for prompt in prompts}
    width = max(len(prompt.ids) for prompt in prompts)
    filler = min(ends)
    ids = torch.tensor([[filler] * (width - len(p.ids)) + list(p.ids) for p in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(p.ids)) + [1] * len(p.ids) for p in prompts], device=model.device)
    config = GenerationConfig(
        max_new_tokens=max_new_tokens, do_sample=False, eos_token_id=sorted(ends), pad_token_id=filler
    )
    training = model.training
    model.eval()
    generate: Any = model.generate  # a mixin's method that mypy takes for a tensor
    output = generate(input_ids=ids, attention_mask=mask, generation_config=config, logits_processor=[noise])
    model.train(training)
    rows = output[:, width:].tolist()
    return [row[: next((i for i, token in enumerate(row, 1) if token in ends), len(row))] for row in rows]
