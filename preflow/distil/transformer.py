"""A causal language model of `transformers` for the distillation: prompts are users' turns, responses end with a token.

The paper distils T5; here it is any causal model with a chat template. What ends a turn is a token of the response like
any other, except in a response that was cut at its limit. Models whose tokenizers differ are refused.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from preflow.distil.language import PAD, LanguageModel
from preflow.lm.chat import Encoded, Prompt, encode, encode_prompts
from preflow.lm.generate import sample_ids
from preflow.lm.lean_trainer import minimise
from preflow.lm.logprobs import head_only_where, pad
from preflow.policies.policy import Policy, load_policy


@dataclass(frozen=True)
class UserTurns:
    """Prompts: the text of a user's turn each."""

    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: Tensor) -> "UserTurns":
        return UserTurns(tuple(self.texts[row] for row in rows.tolist()))

    @property
    def messages(self) -> list[list[dict[str, str]]]:
        """As chat messages."""
        return [[{"role": "user", "content": text}] for text in self.texts]


@dataclass(frozen=True, kw_only=True)
class Running:
    """How models are run."""

    max_prompt_tokens: int
    max_response_tokens: int
    """A response is cut there; its end-of-turn token counts."""
    sampling_batch: int
    """Prompts answered at a time; it changes no response."""
    micro_batch_size: int | None
    """Responses whose gradients are in memory at a time; None for all of an update."""
    bf16: bool
    """bfloat16 autocast while training: for hardware that has it."""


class Transformer(LanguageModel):
    """A policy that answers users' turns; dropout is off in training too, as in the paper."""

    def __init__(self, policy: Policy, running: Running, *, name: str) -> None:
        super().__init__()
        self.model: Any = policy.model.float()
        self.tokenizer, self.running, self.called = policy.tokenizer, running, name
        self.prompts: dict[str, Prompt] = {}
        self.train(mode=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with weights of its own; the tokenizer, which nothing changes, is shared."""
        return type(self)(Policy(deepcopy(self.model, memo), self.tokenizer), self.running, name=self.called)

    @property
    def name(self) -> str:
        """See `LanguageModel`."""
        return self.called

    @property
    def vocabulary(self) -> str:
        """A digest of the tokens with their numbers, and how many logits there are."""
        tokens = "\n".join(f"{number} {token}" for token, number in sorted(self.tokenizer.get_vocab().items()))
        return f"{self.vocabulary_size} tokens {sha256(tokens.encode()).hexdigest()[:12]}"

    @property
    def vocabulary_size(self) -> int:
        """Logits of a position."""
        return int(self.model.config.vocab_size)

    def train(self, mode: bool = True) -> Self:  # noqa: ARG002, FBT001, FBT002
        """Stays in evaluation mode."""
        return super().train(mode=False)

    def logprobs(self, prompts: UserTurns, responses: Tensor) -> Tensor:
        """See `LanguageModel`; only positions of response tokens go through the output head."""
        ids = [[token for token in row if token != PAD] for row in responses.tolist()]
        joined = [
            Encoded(prompt.ids + tuple(tokens), len(prompt.ids))
            for prompt, tokens in zip(self._encoded(prompts), ids, strict=True)
        ]
        input_ids, predicts = (tensor.to(self.model.device) for tensor in pad(joined))
        with head_only_where(self.model, predicts):
            logits = self.model(input_ids=input_ids, use_cache=False).logits
        found = log_softmax(logits.float(), -1)
        there = (responses != PAD).to(found.device)
        return found.new_zeros(*responses.shape, found.shape[-1]).masked_scatter(there[..., None], found)

    @torch.no_grad()
    def sample(self, prompts: UserTurns, generator: torch.Generator) -> Tensor:
        """See `LanguageModel`; a response does not depend on the prompts beside its own, but on its row."""
        ids = sample_ids(
            self.model,
            self._encoded(prompts),
            max_new_tokens=self.running.max_response_tokens,
            temperature=1.0,
            seed=int(torch.randint(2**62, (), generator=generator)),
            batch_size=self.running.sampling_batch,
        )
        return _padded(ids)

    def fit(
        self,
        losses: Callable[[Tensor], Tensor],
        batches: Iterable[Tensor],
        *,
        steps: int,
        batch_size: int,
        lr: float,
        after_step: Callable[[int], bool] | None = None,
    ) -> None:
        """See `LanguageModel`; through `transformers.Trainer`."""
        micro, bf16 = self.running.micro_batch_size, self.running.bf16
        how: dict[str, Any] = {"steps": steps, "batch_size": batch_size, "micro_batch_size": micro, "bf16": bf16}
        minimise(self, losses, batches, lr=lr, after_step=after_step, **how)

    def save_pretrained(self, folder: Path) -> None:
        """See `Policy`."""
        Policy(self.model, self.tokenizer).save_pretrained(folder)

    def tokens(self, prompts: UserTurns, texts: Sequence[str]) -> Tensor:
        """The token ids of given responses, [n, T], as `sample` gives them: cut at the limit, else with an end.

        Raises
        ------
        ValueError
            A prompt is refused, see `preflow.lm.chat.encode_prompts`.
        """
        limits = {"max_response_tokens": self.running.max_response_tokens}
        found = encode(self.tokenizer, prompts.messages, texts, **limits, **self._prompt_limit)
        self._check(found.refused, found.counts)
        return _padded([list(row.ids[row.prompt_length :]) for row in found.rows.values()])

    def texts(self, responses: Tensor) -> list[str]:
        """The responses, [n, T], as text."""
        ids = [[token for token in row if token != PAD] for row in responses.tolist()]
        found: list[str] = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
        return found

    @property
    def _prompt_limit(self) -> dict[str, int]:
        return {"max_prompt_tokens": self.running.max_prompt_tokens}

    def _encoded(self, prompts: UserTurns) -> list[Prompt]:
        new = UserTurns(tuple(dict.fromkeys(text for text in prompts.texts if text not in self.prompts)))
        if len(new):
            found = encode_prompts(self.tokenizer, new.messages, **self._prompt_limit)
            self._check(found.refused, found.counts)
            self.prompts |= dict(zip(new.texts, found.rows.values(), strict=True))
        return [self.prompts[text] for text in prompts.texts]

    def _check(self, refused: Any, counts: dict[str, int]) -> None:
        if refused:
            raise ValueError(
                f"{self.name} cannot read {len(refused)} prompts: {counts}; shorten them or raise max_prompt_tokens = "
                f"{self.running.max_prompt_tokens}"
            )


def load_transformer(folder: Path, running: Running, *, name: str) -> Transformer:
    """The model that `Transformer.save_pretrained` wrote, or any that `load_policy` reads."""
    return Transformer(load_policy(folder, chat_template=None), running, name=name)


def _padded(ids: Sequence[Sequence[int]]) -> Tensor:
    """Responses of token ids, padded on the right, int64 [n, T]."""
    rows = [torch.tensor(row, dtype=torch.int64) for row in ids]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
