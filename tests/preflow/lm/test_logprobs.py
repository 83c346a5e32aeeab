"""Log-probabilities against a plain computation, and the same whatever stands beside them."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from preflow.lm import logprobs
from preflow.lm.chat import Encoded
from preflow.lm.logprobs import pad, plan_batches, response_logprobs, sequence_logprobs, token_logprobs
from tests.preflow.lm.conftest import random_responses


def plain(model, row):
    """All logits of one sequence alone, then the positions before response tokens."""
    with torch.no_grad():
        logits = model(torch.tensor([row.ids])).logits[0]
    values = logits.log_softmax(-1)[torch.arange(len(row.ids) - 1), torch.tensor(row.ids[1:])]
    return values[row.prompt_length - 1 :].numpy()


def test_equal_to_the_plain_computation(model):
    rows = random_responses(20, seed=1)
    for row, values in zip(rows, response_logprobs(model, rows, max_batch_tokens=200), strict=True):
        assert values.dtype == np.float32
        assert values.shape == (row.response_length,)
        np.testing.assert_allclose(values, plain(model, row), atol=1e-5)


@pytest.mark.parametrize("max_batch_tokens", [1, 37, 10_000])
def test_batch_size_and_order_change_nothing(model, max_batch_tokens):
    rows = random_responses(24, seed=2)
    once = response_logprobs(model, rows, max_batch_tokens=120)
    again = response_logprobs(model, rows[::-1], max_batch_tokens=max_batch_tokens)[::-1]
    assert max(np.abs(a - b).max() for a, b in zip(once, again, strict=True)) < 1e-5


def test_real_model_gives_the_same_in_any_batch(shared_data):
    model = AutoModelForCausalLM.from_pretrained(shared_data / "model_stories260K" / "hf").eval()
    rows = random_responses(8, seed=3, longest=40)
    alone = response_logprobs(model, rows, max_batch_tokens=1)
    together = response_logprobs(model, rows, max_batch_tokens=1000)
    assert max(np.abs(a - b).max() for a, b in zip(alone, together, strict=True)) < 1e-5


def test_only_response_positions_go_through_the_head(model):
    rows = random_responses(6, seed=4)
    seen = []
    model.lm_head.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    response_logprobs(model, rows, max_batch_tokens=1000)
    assert seen == [(sum(row.response_length for row in rows), model.config.vocab_size)]


def test_prompt_tokens_never_enter(model):
    rows = [Encoded((2, 8, 9, 10, 11), 4)]
    assert response_logprobs(model, rows, max_batch_tokens=10)[0].shape == (1,)
    assert response_logprobs(model, [Encoded((2, 8, 9), 3)], max_batch_tokens=10)[0].shape == (0,)


def test_sums_and_gradients_take_the_same_path(model):
    rows = random_responses(5, seed=5)
    sums = sequence_logprobs(model, *pad(rows))
    values = response_logprobs(model, rows, max_batch_tokens=1000)
    np.testing.assert_allclose(sums.detach(), [v.sum() for v in values], rtol=1e-5)
    sums.sum().backward()
    ours = model.lm_head.weight.grad.clone()
    model.zero_grad()
    for row in rows:
        logits = model(torch.tensor([row.ids])).logits[0, row.prompt_length - 1 : -1].log_softmax(-1)
        logits.gather(1, torch.tensor(row.ids[row.prompt_length :])[:, None]).sum().backward()
    torch.testing.assert_close(ours, model.lm_head.weight.grad, atol=1e-4, rtol=1e-4)


def test_head_is_whole_again_afterwards(model):
    response_logprobs(model, random_responses(2, seed=6), max_batch_tokens=100)
    assert model(torch.tensor([[2, 8, 9]])).logits.shape == (1, 3, model.config.vocab_size)
    with pytest.raises(IndexError):
        token_logprobs(model, torch.tensor([[2, 8, 9]]), torch.ones(7, 7, dtype=torch.bool))
    assert model(torch.tensor([[2, 8, 9]])).logits.shape == (1, 3, model.config.vocab_size)


def test_batches_keep_to_both_limits(monkeypatch):
    rows = random_responses(50, seed=7)
    batches = plan_batches(rows, max_batch_tokens=60, vocabulary=10)
    assert sorted(row for batch in batches for row in batch) == list(range(50))
    assert all(len(batch) * max(len(rows[row].ids) for row in batch) <= 60 for batch in batches)
    assert any(len(batch) > 1 for batch in batches)
    monkeypatch.setattr(logprobs, "MAX_LOGITS", 150)
    small = plan_batches(rows, max_batch_tokens=60, vocabulary=10)
    assert all(10 * sum(rows[row].response_length for row in batch) <= 150 for batch in small)
    assert len(small) > len(batches)


def test_prompt_without_token_is_refused(model):
    with pytest.raises(ValueError, match="nothing predicts the first response token"):
        response_logprobs(model, [Encoded((8, 9), 0)], max_batch_tokens=10)


def test_no_responses_give_no_values(model):
    assert response_logprobs(model, [], max_batch_tokens=10) == []
