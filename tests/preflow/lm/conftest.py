"""A word-level chat tokenizer and a tiny Llama: everything of the core runs on them in milliseconds."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from preflow.lm.chat import Encoded

SPECIAL = ["<pad>", "<unk>", "<s>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
WORDS = [*"abcdefghijklmnopqrstuvwxyz", "end", "assistant", "user", "<|", "|>", "<", ">", "s"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role not in ['user', 'assistant', 'system'] %}"
    "{{ raise_exception('unknown role') }}{% endif %}<|{{ m.role }}|> {{ m.content }} <|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def tokenizer():
    return make_tokenizer()


def make_tokenizer(template=TEMPLATE):
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys([*SPECIAL, *WORDS]))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocabulary["<s>"])])
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "<|end|>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, additional_special_tokens=SPECIAL[3:6], chat_template=template, **names
    )


@pytest.fixture
def model():
    return make_model(seed=0)


def make_model(seed, vocabulary=64):
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=6,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def random_responses(n, seed, *, longest=12):
    rng = np.random.default_rng(seed)
    shapes = rng.integers(1, longest, size=(n, 2))
    return [Encoded(tuple(rng.integers(7, 33, prompt + response).tolist()), int(prompt)) for prompt, response in shapes]
