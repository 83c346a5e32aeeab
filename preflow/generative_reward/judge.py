"""What the judge reads: instruction, prompt, both responses and a cue in one user turn; its verdict is one token.

One turn, because two user turns in a row are refused by many chat templates. A prompt of one message stands there as it
is; of several, each is a part that its role begins. Nothing keeps a response from quoting the wording of the judge.
"""

from collections import Counter
from dataclasses import dataclass, replace

import polars as pl
from transformers import PreTrainedTokenizerFast

from preflow.lm.chat import Encoded, Encodings, Messages, encode_prompts

UNKNOWN_WORDS = "unknown_words"


@dataclass(frozen=True)
class JudgePrompt:
    """The wording; an empty part is left out with its separator.

    Raises
    ------
    ValueError
        There are not two different verdicts.
    """

    instruction: str
    before_prompt: str
    before_first: str
    before_second: str
    cue: str
    separator: str
    """Between the parts, and between the responses of `both`."""
    verdicts: tuple[str, str] = ("A", "B")
    """The answer for the response shown first, and for the one shown second; each one token of the model."""

    def __post_init__(self) -> None:
        if len(set(self.verdicts)) != 2 or len(self.verdicts) != 2:
            raise ValueError(f"verdicts are {self.verdicts}; the two responses need two different names")

    def messages(self, prompt: Messages, first: str, second: str) -> list[dict[str, str]]:
        """The chat to which the verdict is the answer."""
        asked = [m["content"] if len(prompt) == 1 else f"{m['role']}: {m['content']}" for m in prompt]
        before = _stated(self.instruction, self.before_prompt)
        shown = (*_stated(self.before_first), first, *_stated(self.before_second), second)
        return [{"role": "user", "content": self.separator.join((*before, *asked, *shown, *_stated(self.cue)))}]

    def both(self, first: str, second: str) -> str:
        """Both responses as one, the target of pre-training."""
        return self.separator.join((first, second))


JUDGE = JudgePrompt(
    instruction="Below are a prompt and two responses to it. Which response is better? Answer with A or B alone.",
    before_prompt="[Prompt]",
    before_first="[Response A]",
    before_second="[Response B]",
    cue="Better response:",
    separator="\n",
)
"""A wording for models that read English."""


def verdict_tokens(tokenizer: PreTrainedTokenizerFast, judge: JudgePrompt) -> tuple[int, int]:
    """The tokens of the verdicts for the first and for the second response.

    Raises
    ------
    ValueError
        A verdict is not exactly one token that the tokenizer knows, or both are the same one.
    """
    first, second = (_one_token(tokenizer, text) for text in judge.verdicts)
    if first == second:
        raise ValueError(f"the verdicts {judge.verdicts} are one token of tokenizer {tokenizer.name_or_path!r}")
    return first, second


def presentations(
    tokenizer: PreTrainedTokenizerFast, judge: JudgePrompt, rows: pl.DataFrame, *, max_prompt_tokens: int
) -> Encodings[tuple[Encoded, Encoded]]:
    """Each row (columns prompt, response_a, response_b) with response_a shown first, and with it shown second.

    Both are answered by the verdict for response_a, which is the whole response. Refused are the reasons of
    `encode_prompts`, its limit being here for all that the judge reads, and `unknown_words`: the tokenizer's unknown
    token would stand for what was written, in a text or in the wording.

    Raises
    ------
    ValueError
        See `verdict_tokens` and `encode_prompts`.
    """
    tokens, unknown = verdict_tokens(tokenizer, judge), tokenizer.unk_token_id
    texts = list(rows.select("prompt", "response_a", "response_b").iter_rows())
    chats = [judge.messages(prompt, *shown) for prompt, a, b in texts for shown in ((a, b), (b, a))]
    found = encode_prompts(tokenizer, chats, max_prompt_tokens=max_prompt_tokens)
    refused = {row // 2: reason for row, reason in found.refused.items()}
    refused |= {row // 2: UNKNOWN_WORDS for row, prompt in found.rows.items() if unknown in prompt.ids}
    said = {row: Encoded((*prompt.ids, tokens[row % 2]), len(prompt.ids)) for row, prompt in found.rows.items()}
    kept = {row: (said[2 * row], said[2 * row + 1]) for row in range(len(texts)) if row not in refused}
    return Encodings(kept, dict(sorted(refused.items())), dict(sorted(Counter(refused.values()).items())))


def answered(presented: Encoded, token: int) -> Encoded:
    """The same presentation with another verdict."""
    return replace(presented, ids=(*presented.ids[:-1], token))


def _stated(*parts: str) -> list[str]:
    return [part for part in parts if part]


def _one_token(tokenizer: PreTrainedTokenizerFast, text: str) -> int:
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
        return int(ids[0])
    what = f"{len(ids)} tokens" if len(ids) != 1 else "the unknown token"
    raise ValueError(
        f"the verdict {text!r} is {what} of tokenizer {tokenizer.name_or_path!r}: choose two verdicts that are one "
        "token each, such as single letters, in JudgePrompt.verdicts"
    )
