import pytest
import torch

from preflow.distil.ngram import Language, NGram, random_oracle

TINY = Language(vocabulary=4, length=4, order=3, prompt_size=3)


def tiny(seed, width=8):
    """A random n-gram, peaked, that can be enumerated: 256 responses to a prompt."""
    return random_oracle(TINY, width=width, embedding=5, seed=seed)


def drawn(n, seed=0):
    return TINY.draw_prompts(n, torch.Generator().manual_seed(seed))


@pytest.fixture
def student():
    return NGram(TINY, width=6, embedding=5, seed=9)
