"""Chat messages to token ids: the prompt by the tokenizer's chat template, then the response and its end-of-turn token.

The template is rendered with empty slots and the messages are put into the slots. So it is known which part of the
text is content, and the text of a special token inside content stays text: it cannot open a turn. All other ids are
those of `apply_chat_template`. Prompt and response are tokenised apart, as when the response is sampled, so the ids of
the prompt are the same whatever follows.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerFast

Messages = Sequence[Mapping[str, str]]  # each with "role" and "content"
T = TypeVar("T")

# Private-use characters, so that no template has them; the blanks around a slot show whether the template trims.
_SLOT = re.compile("( ?)\ue000([0-9]+)\ue001( ?)")


@dataclass(frozen=True)
class Prompt:
    """A prompt as the model sees it, up to where the response starts."""

    ids: tuple[int, ...]
    end_of_turn: int
    """The token that ends a response to it."""
    special_text: bool
    """Whether its content held the text of a special token, which was tokenised as text."""


@dataclass(frozen=True)
class Encoded:
    """A prompt and a response: token ids, of which the first `prompt_length` are the prompt."""

    ids: tuple[int, ...]
    prompt_length: int
    flags: tuple[str, ...] = ()
    """`special_text` (see `Prompt`); `response_cut`: over the limit, so it ends without an end-of-turn token."""

    @property
    def response_length(self) -> int:
        """Number of response tokens, the end-of-turn token included."""
        return len(self.ids) - self.prompt_length


@dataclass(frozen=True)
class Encodings(Generic[T]):
    """What became of the rows that were to be encoded; each is either kept or refused."""

    rows: dict[int, T]
    """The kept rows by row number, in order."""
    refused: dict[int, str]
    """The reason by row number, in order."""
    counts: dict[str, int]
    """How many rows were refused for each reason, and how many encodings have each flag."""


@dataclass(frozen=True)
class _Frame:
    """What a template makes of a sequence of roles."""

    pieces: list[str]
    """The text around the contents: one more than there are messages."""
    trims: list[bool]
    """Whether the template trims the content of each message."""
    end_of_turn: int
    """The token that ends the response."""

    def fill(self, prompt: Messages) -> tuple[str, list[tuple[int, int]]]:
        """The text of the prompt, and where in it each content stands."""
        text, spans = self.pieces[0], []
        for message, trim, piece in zip(prompt, self.trims, self.pieces[1:], strict=True):
            content = message["content"].strip() if trim else message["content"]
            spans.append((len(text), len(text) + len(content)))
            text += content + piece
        return text, spans


def encode_prompts(
    tokenizer: PreTrainedTokenizerFast, prompts: Sequence[Messages], *, max_prompt_tokens: int
) -> Encodings[Prompt]:
    """The prompts as token ids, with exactly one BOS token where the tokenizer uses one.

    Refused are `template_refused` (the template raised an error: unknown role, wrong order, no message),
    `template_drops_message`, `empty_prompt` (no token at all) and `prompt_over_limit` (never cut: a cut prompt asks
    something else).

    Raises
    ------
    ValueError
        The tokenizer has no chat template, or nothing ends a turn.
    """
    if not tokenizer.chat_template:
        raise ValueError(f"tokenizer {tokenizer.name_or_path!r} has no chat template; set tokenizer.chat_template")
    frames = {roles: _frame(tokenizer, roles) for roles in dict.fromkeys(map(_roles, prompts))}
    distinct = {_key(prompt): prompt for prompt in prompts}
    filled = {
        key: frame.fill(prompt)
        for key, prompt in distinct.items()
        if isinstance(frame := frames[_roles(prompt)], _Frame)
    }
    ids = dict(zip(filled, _prompt_ids(tokenizer, list(filled.values())), strict=True))
    rows: dict[int, Prompt] = {}
    refused: dict[int, str] = {}
    for row, prompt in enumerate(prompts):
        frame = frames[_roles(prompt)]
        outcome = frame if isinstance(frame, str) else _prompt(*ids[_key(prompt)], frame, max_prompt_tokens)
        if isinstance(outcome, str):
            refused[row] = outcome
        else:
            rows[row] = outcome
    return Encodings(rows, refused, _counts(refused, (["special_text"] * p.special_text for p in rows.values())))


def encode(
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[Messages],
    responses: Sequence[str],
    *,
    max_prompt_tokens: int,
    max_response_tokens: int,
) -> Encodings[Encoded]:
    """Prompts with their responses; a response over the limit is cut, and so is without its end-of-turn token.

    An empty response is the end-of-turn token alone. Refused: see `encode_prompts`, which says what is raised too.
    """
    kept = encode_prompts(tokenizer, prompts, max_prompt_tokens=max_prompt_tokens)
    texts = dict.fromkeys(response for _, response in zip(prompts, responses, strict=True))
    plain = tokenizer(list(texts), add_special_tokens=False, split_special_tokens=True)["input_ids"] if texts else []
    ids = dict(zip(texts, plain, strict=True))
    special = _special_text(tokenizer)
    rows = {
        row: _join(prompt, ids[responses[row]], special.search(responses[row]) is not None, max_response_tokens)
        for row, prompt in kept.rows.items()
    }
    return Encodings(rows, kept.refused, _counts(kept.refused, (encoded.flags for encoded in rows.values())))


def encode_pairs(
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[Messages],
    chosen: Sequence[str],
    rejected: Sequence[str],
    *,
    max_prompt_tokens: int,
    max_response_tokens: int,
) -> Encodings[tuple[Encoded, Encoded]]:
    """(chosen, rejected) of each pair. As `encode`, and refused as well: `identical_after_truncation`.

    Such a pair has no gradient, so training on it would be silent waste.
    """
    limits = {"max_prompt_tokens": max_prompt_tokens, "max_response_tokens": max_response_tokens}
    both = encode(tokenizer, [*prompts, *prompts], [*chosen, *rejected], **limits)
    n = len(prompts)
    rows, refused = {}, {row: reason for row, reason in both.refused.items() if row < n}
    for row, encoded in both.rows.items():
        if row < n and encoded.ids == both.rows[row + n].ids:
            refused[row] = "identical_after_truncation"
        elif row < n:
            rows[row] = (encoded, both.rows[row + n])
    refused = dict(sorted(refused.items()))
    return Encodings(rows, refused, _counts(refused, (side.flags for side in chain.from_iterable(rows.values()))))


def _roles(prompt: Messages) -> tuple[str, ...]:
    return tuple(message["role"] for message in prompt)


def _key(prompt: Messages) -> tuple[tuple[str, str], ...]:
    return tuple((message["role"], message["content"]) for message in prompt)


def _counts(refused: Mapping[int, str], flags: Iterable[Iterable[str]]) -> dict[str, int]:
    return dict(sorted(Counter(chain(refused.values(), chain.from_iterable(flags))).items()))


def _frame(tokenizer: PreTrainedTokenizerFast, roles: tuple[str, ...]) -> _Frame | str:
    """The frame of these roles, or the reason why a prompt with them is refused."""
    messages = [{"role": role, "content": f" \ue000{slot}\ue001 "} for slot, role in enumerate(roles)]
    answer = {"role": "assistant", "content": f" \ue000{len(roles)}\ue001 "}
    try:
        before = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        after = tokenizer.apply_chat_template([*messages, answer], tokenize=False)
    except TemplateError:
        return "template_refused"
    pieces = _SLOT.split(str(before))  # text, blank, slot, blank, text, ...
    if pieces[2::4] != [str(slot) for slot in range(len(roles))]:
        return "template_drops_message"
    return _Frame(
        pieces[::4], [not blank for blank in pieces[1::4]], _end_of_turn(tokenizer, _SLOT.split(str(after))[-1])
    )


def _end_of_turn(tokenizer: PreTrainedTokenizerFast, tail: str) -> int:
    """The first special token after a response; EOS where the template closes a turn without one."""
    specials = _special_ids(tokenizer)
    found = [token for token in tokenizer(tail, add_special_tokens=False)["input_ids"] if token in specials]
    if not found and tokenizer.eos_token_id is None:
        raise ValueError(f"tokenizer {tokenizer.name_or_path!r} cannot end a turn: set tokenizer.eos_token")
    return found[0] if found else tokenizer.eos_token_id


def _special_ids(tokenizer: PreTrainedTokenizerFast) -> set[int]:
    return {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}


def _special_text(tokenizer: PreTrainedTokenizerFast) -> re.Pattern[str]:
    texts = [added.content for added in tokenizer.added_tokens_decoder.values() if added.special]
    return re.compile("|".join(map(re.escape, texts)) or "(?!)")


def _prompt_ids(
    tokenizer: PreTrainedTokenizerFast, filled: Sequence[tuple[str, list[tuple[int, int]]]]
) -> list[tuple[tuple[int, ...], bool]]:
    """Ids of each text with special tokens outside contents only, and whether a content held the text of one."""
    if not filled:
        return []
    specials = _special_ids(tokenizer)
    encoded = tokenizer([text for text, _ in filled], add_special_tokens=False, return_offsets_mapping=True)
    bos = [tokenizer.bos_token_id] if tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id] else []
    outcome = []
    for (text, spans), ids, offsets in zip(filled, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        opened = [
            i
            for i, (token, (start, end)) in enumerate(zip(ids, offsets, strict=True))
            if token in specials and any(start < stop and end > begin for begin, stop in spans)
        ]
        for i in reversed(opened):
            ids[i : i + 1] = tokenizer(text[slice(*offsets[i])], add_special_tokens=False, split_special_tokens=True)[
                "input_ids"
            ]
        outcome.append((tuple(ids if ids[:1] == bos else [*bos, *ids]), bool(opened)))
    return outcome


def _prompt(ids: tuple[int, ...], special_text: bool, frame: _Frame, limit: int) -> Prompt | str:  # noqa: FBT001
    if not ids:
        return "empty_prompt"
    return "prompt_over_limit" if len(ids) > limit else Prompt(ids, frame.end_of_turn, special_text)


def _join(prompt: Prompt, response: list[int], special_text: bool, limit: int) -> Encoded:  # noqa: FBT001
    full = (*response, prompt.end_of_turn)
    flags = ["special_text"] * (prompt.special_text or special_text) + ["response_cut"] * (len(full) > limit)
    return Encoded(prompt.ids + full[:limit], len(prompt.ids), tuple(flags))
