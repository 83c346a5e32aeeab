"""Sampling: the distribution of the model, the same text for the same seed, however the prompts are batched."""

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from preflow.lm.chat import encode_prompts
from preflow.lm.generate import sample
from tests.preflow.lm.conftest import make_model

SETTINGS = {"max_prompt_tokens": 40, "max_new_tokens": 8, "temperature": 1.0, "seed": 0, "batch_size": 64}


def user(content):
    return [{"role": "user", "content": content}]


@pytest.fixture
def model(tokenizer):
    return make_model(seed=0, vocabulary=len(tokenizer))


PROMPTS = [user("a " * (i % 9)) for i in range(30)]


def test_batch_size_changes_nothing(model, tokenizer):
    once = sample(model, tokenizer, PROMPTS, **SETTINGS)
    assert once == sample(model, tokenizer, PROMPTS, **SETTINGS | {"batch_size": 7})
    assert len(set(once)) > 20
    assert once != sample(model, tokenizer, PROMPTS, **SETTINGS | {"seed": 1})


def test_the_callers_random_state_is_neither_used_nor_changed(model, tokenizer):
    before = torch.get_rng_state()
    once = sample(model, tokenizer, PROMPTS[:3], **SETTINGS)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(7)
    assert once == sample(model, tokenizer, PROMPTS[:3], **SETTINGS)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_frequencies_are_those_of_the_model(model, tokenizer, temperature):
    prompt = user("a b")
    texts = sample(model, tokenizer, [prompt] * 2000, **SETTINGS | {"max_new_tokens": 1, "temperature": temperature})
    ids = encode_prompts(tokenizer, [prompt], max_prompt_tokens=40).rows[0].ids
    with torch.no_grad():
        probabilities = (model(torch.tensor([ids])).logits[0, -1].double() / temperature).softmax(0)
    words = {i: tokenizer.decode([i]) for i in range(len(tokenizer)) if i not in tokenizer.all_special_ids}
    counts = Counter(texts)
    observed = [counts[word] for word in words.values()]
    expected = [2000 * probabilities[i].item() for i in words]
    rest = 2000 - sum(observed), 2000 - sum(expected)  # special tokens decode to nothing
    assert len(observed) > 20
    assert chisquare([*observed, rest[0]], [*expected, rest[1]]).pvalue > 0.001


def test_zero_temperature_takes_the_most_probable_token(model, tokenizer):
    prompt = user("c")
    ids = list(encode_prompts(tokenizer, [prompt], max_prompt_tokens=40).rows[0].ids)
    words = []
    for _ in range(8):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        if ids[-1] == tokenizer.eos_token_id:
            break
        words.append(ids[-1])
    assert sample(model, tokenizer, [prompt], **SETTINGS | {"temperature": 0.0}) == [
        tokenizer.decode(words, skip_special_tokens=True)
    ]


def test_stops_at_the_end_of_turn(model, tokenizer):
    with torch.no_grad():
        model.lm_head.weight.zero_()  # every token is equally probable: about 1 in 40 ends the turn
    texts = sample(model, tokenizer, PROMPTS, **SETTINGS | {"max_new_tokens": 60})
    lengths = [len(text.split()) for text in texts]
    assert min(lengths) < 20 < max(lengths) < 61


def test_refused_prompts_are_named(model, tokenizer):
    with pytest.raises(ValueError, match=r"cannot answer 1 of 2 prompts: \{'prompt_over_limit': 1\}"):
        sample(model, tokenizer, [user("a " * 50), user("a")], **SETTINGS)
