"""Reference store: a sequence costs one forward ever, whatever it is asked for later."""

import numpy as np
import pytest
import torch

from preflow import store as store_module
from preflow.lm.chat import Encoded
from preflow.lm.logprobs import response_logprobs
from preflow.lm.reference import reference_logprobs, weights_key
from preflow.store import ArrayStore, ShardError
from tests.preflow.lm.conftest import make_model, random_responses

ROWS = random_responses(20, seed=1)


@pytest.fixture
def ask(model, tmp_path):
    """Ask as a new process would: with the store read from disk."""
    forwards = []
    model.register_forward_hook(lambda *_: forwards.append(1))

    def ask(rows, *, weights="w", max_batch_tokens=40):
        forwards.clear()
        result = reference_logprobs(model, weights, rows, ArrayStore(tmp_path), max_batch_tokens=max_batch_tokens)
        return result.tokens, result.computed, len(forwards)

    return ask


def test_values_are_the_response_logprobs(ask, model):
    tokens, computed, _ = ask(ROWS)
    assert computed == len(ROWS)
    for ours, direct in zip(tokens, response_logprobs(model, ROWS, max_batch_tokens=1000), strict=True):
        np.testing.assert_allclose(ours, direct, atol=1e-5)


def test_what_was_seen_costs_no_forward(ask):
    first, _, forwards = ask(ROWS)
    assert forwards > 1
    again, computed, forwards = ask(ROWS[::-1][:7] * 2)  # a derived dataset: other order, other rows, repeats
    assert (computed, forwards) == (0, 0)
    assert all(np.array_equal(a, b) for a, b in zip(again[:7], first[::-1], strict=False))


def test_only_new_sequences_are_computed(ask):
    ask(ROWS[:15])
    assert ask(ROWS)[1] == 5


def test_repeats_in_one_request_are_computed_once(ask):
    assert ask([ROWS[0], ROWS[1], ROWS[0]])[1] == 2


def test_weights_prompt_length_and_dtype_are_part_of_the_key(ask, model):
    ask(ROWS)
    assert ask(ROWS, weights="other")[1] == len(ROWS)
    row = next(row for row in ROWS if row.response_length > 1)
    assert ask([Encoded(row.ids, row.prompt_length + 1)])[1] == 1
    with torch.autocast("cpu", torch.bfloat16):
        assert ask(ROWS)[1] == len(ROWS)
    assert ask(ROWS)[1] == 0


def test_empty_responses_need_nothing(ask):
    tokens, computed, forwards = ask([Encoded((2, 3), 2)])
    assert (tokens[0].shape, computed, forwards) == ((0,), 0, 0)


def test_killed_run_goes_on_and_ends_with_the_same_bytes(ask, model, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "BATCHES_PER_SHARD", 2)
    whole = reference_logprobs(model, "w", ROWS, ArrayStore(tmp_path / "whole"), max_batch_tokens=40).tokens
    calls = iter(range(100))

    def dies(self, arrays, add=ArrayStore.add):
        if next(calls) == 2:
            raise KeyboardInterrupt
        add(self, arrays)

    with monkeypatch.context() as patched:
        patched.setattr(ArrayStore, "add", dies)
        with pytest.raises(KeyboardInterrupt):
            ask(ROWS)
    resumed, computed, _ = ask(ROWS)
    assert 0 < computed < len(ROWS)
    assert all(np.array_equal(a, b) for a, b in zip(resumed, whole, strict=True))


def test_altered_shard_is_noticed(ask, tmp_path):
    ask(ROWS)
    shard = next(tmp_path.glob("*.safetensors"))
    data = bytearray(shard.read_bytes())
    data[-3] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ShardError, match="was altered"):
        ask(ROWS)


def test_weights_key_names_the_weights():
    assert weights_key(make_model(seed=0)) == weights_key(make_model(seed=0)) != weights_key(make_model(seed=1))
