"""Samples responses from a policy: each depends on the seed, its prompt and its place, not on how prompts are batched.

Sampling is the Gumbel-max trick: argmax(logits / temperature + Gumbel noise) has the distribution
softmax(logits / temperature), and the noise of a prompt is drawn from a generator of its own.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerFast

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


class _Gumbel:
    """Draws the next token of each row from the row's own generator."""

    def __init__(self, generators: Sequence[np.random.Generator], temperature: float) -> None:
        self.generators, self.temperature = generators, temperature

    def drawn(self, logits: Tensor, rows: Sequence[int]) -> Tensor:
        """One token a row, [n], of logits [n, V]."""
        if self.temperature == 0:
            return logits.argmax(-1)
        noise = np.stack([self.generators[row].gumbel(size=logits.shape[1]) for row in rows])
        noisy = logits.float() / self.temperature + torch.from_numpy(noise.astype(np.float32)).to(logits.device)
        return noisy.argmax(-1)


@torch.no_grad()
def _generate(
    model: PreTrainedModel, prompts: Sequence[Prompt], noise: _Gumbel, max_new_tokens: int
) -> list[list[int]]:
    """Token ids of the responses, up to the end-of-turn token; a row that came to it leaves the batch."""
    training = model.training
    model.eval()
    ids, mask = (tensor.to(model.device) for tensor in _padded_left(prompts))
    positions, cache = (mask.cumsum(1) - 1).clamp(min=0), DynamicCache(config=model.config)
    ends = torch.tensor([prompt.end_of_turn for prompt in prompts], device=model.device)
    responses: list[list[int]] = [[] for _ in prompts]
    rows = torch.arange(len(prompts), device=model.device)
    for _ in range(max_new_tokens):
        logits = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, cache=cache, logits_to_keep=1
        ).logits[:, -1]
        tokens = noise.drawn(logits, rows.tolist())
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            responses[row].append(token)
        left = (tokens != ends[rows]).nonzero()[:, 0]
        if len(left) == 0:
            break
        if len(left) < len(rows):
            cache.batch_select_indices(left)
        rows, ids, mask = rows[left], tokens[left, None], torch.nn.functional.pad(mask[left], (0, 1), value=1)
        positions = positions[left, -1:] + 1
    model.train(training)
    return responses


def _padded_left(prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor]:
    """Token ids and where they are, int64 [n, T]."""
    width = max(len(prompt.ids) for prompt in prompts)
    ids = torch.tensor([[prompt.end_of_turn] * (width - len(prompt.ids)) + list(prompt.ids) for prompt in prompts])
    return ids, torch.tensor([[0] * (width - len(prompt.ids)) + [1] * len(prompt.ids) for prompt in prompts])
