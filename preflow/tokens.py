"""What a model sees of a text: its token ids, cut at the model's length. Light: no torch, no transformers."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer


def text_id(text: str) -> str:
    """The first 32 hexadecimal digits of the SHA-256 of the UTF-8 text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder, without padding or truncation.

    Raises
    ------
    FileNotFoundError
        The folder has no `tokenizer.json`.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; save the tokenizer in its fast form (tokenizer.json) there")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()  # some files ask for padding to a fixed length
    tokenizer.no_truncation()
    return tokenizer


def token_ids(texts: Sequence[str], folder: Path, max_tokens: int) -> list[list[int]]:
    """Token ids of each text with the tokenizer's special tokens, the text cut on the right at `max_tokens` in all.

    Parameters
    ----------
    folder
        A model folder that holds `tokenizer.json`.

    Raises
    ------
    FileNotFoundError
        The folder has no `tokenizer.json`.
    ValueError
        `max_tokens` leaves no room beside the special tokens.
    """
    tokenizer = load_tokenizer(folder)
    special = tokenizer.num_special_tokens_to_add(is_pair=False)
    if max_tokens <= special:
        raise ValueError(
            f"max_tokens is {max_tokens}, but the tokenizer in {folder} adds {special} special tokens; allow more"
        )
    tokenizer.enable_truncation(max_tokens)
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
