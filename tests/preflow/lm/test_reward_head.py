"""Rewards on a language model: one trainer, the last response token, the same in any batch."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from preflow.lm.chat import Encoded
from preflow.lm.logprobs import pad
from preflow.lm.reference import weights_key
from preflow.lm.reward_head import (
    REWARD,
    PairRewards,
    RewardModel,
    gap_loss,
    load_reward_model,
    pair_rewards,
    response_rewards,
    reward_model,
)
from preflow.lm.trainer import Example, collate, train
from preflow.objectives import soft_label_loss
from tests.preflow.lm.conftest import make_model, random_responses
from tests.preflow.lm.test_trainer import SETTINGS


def made(outputs=1, seed=1, policy_seed=0):
    return reward_model(make_model(policy_seed), outputs=outputs, seed=seed, about={"name": "test"})


@pytest.fixture
def examples():
    sides = random_responses(48, seed=1)
    return [Example(*pair) for pair in zip(sides[::2], sides[1::2], strict=True)]


def test_rewards_are_the_head_on_the_last_response_token():
    model, rows = made(outputs=3), random_responses(12, seed=2)
    found = response_rewards(model, rows, max_batch_tokens=1000)
    assert found.shape == (12, 3)
    for row, said in zip(rows, found, strict=True):
        state = model.model(torch.tensor([row.ids])).last_hidden_state[0, -1]
        np.testing.assert_allclose(said, (model.score.weight @ state).detach(), atol=1e-5)


def test_a_response_that_ends_with_the_padding_token_is_read_to_its_end():
    model = made()
    model.config.pad_token_id = 6
    row, longer = Encoded((2, 8, 9, 6), 2), Encoded((2, 8, 9, 6, 7, 7, 7), 2)
    state = model.model(torch.tensor([row.ids])).last_hidden_state[0, -1]
    found = response_rewards(model, [row, longer], max_batch_tokens=1000)[0]
    np.testing.assert_allclose(found, (model.score.weight @ state).detach(), atol=1e-5)


@pytest.mark.parametrize("max_batch_tokens", [1, 37, 10_000])
def test_batch_size_and_order_change_nothing(max_batch_tokens):
    model, rows = made(outputs=2), random_responses(24, seed=2)
    once = response_rewards(model, rows, max_batch_tokens=120)
    again = response_rewards(model, rows[::-1], max_batch_tokens=max_batch_tokens)[::-1]
    assert np.abs(once).max() > 0.01
    assert np.abs(once - again).max() < 1e-5
    assert response_rewards(model, [], max_batch_tokens=1).shape == (0, 2)


def test_the_backbone_is_copied_and_the_head_is_drawn_from_its_seed_alone():
    policy = make_model(0)
    before = weights_key(policy)
    torch.manual_seed(3)
    one = made()
    torch.manual_seed(4)
    state = torch.get_rng_state()
    assert weights_key(made()) == weights_key(one)
    assert torch.equal(state, torch.get_rng_state())
    assert weights_key(one.base_model) == weights_key(policy.base_model)
    assert weights_key(made(seed=2).base_model) == weights_key(policy.base_model)
    assert not torch.equal(made(seed=2).score.weight, one.score.weight)
    train(one, [Example(*random_responses(2, seed=1))], gap_loss, forward=REWARD, **SETTINGS | {"steps": 1})
    assert weights_key(policy) == before


def test_gradients_reach_backbone_and_head(examples):
    model = made()
    gap_loss(pair_rewards(model, **collate(examples))).mean().backward()
    grads = {name: float(weights.grad.abs().max()) for name, weights in model.named_parameters()}
    assert len(grads) > 10
    assert all(value > 0 for value in grads.values())


def test_batches_of_pairs_say_what_single_responses_say(examples):
    model = made(outputs=2)
    pairs = pair_rewards(model, **collate(examples))
    for side, rows in ((pairs.chosen, [x.chosen for x in examples]), (pairs.rejected, [x.rejected for x in examples])):
        np.testing.assert_allclose(side.detach(), response_rewards(model, rows, max_batch_tokens=50), atol=1e-5)


def test_the_trainer_learns_rewards_as_it_learns_policies(examples):
    settings = SETTINGS | {"steps": 24}
    trained = train(made(), examples, gap_loss, forward=REWARD, **settings)
    assert set(trained.history[-1]) >= {"reward_chosen", "reward_rejected", "margin", "accuracy"}
    assert trained.history[-1]["margin"] > 1
    assert trained.history[-1]["accuracy"] > 0.8
    again = train(made(), examples, gap_loss, forward=REWARD, **settings)
    assert weights_key(again.model) == weights_key(trained.model)
    chosen, rejected = (
        response_rewards(trained.model, [getattr(x, side) for x in examples], max_batch_tokens=400)[:, 0]
        for side in ("chosen", "rejected")
    )
    assert (chosen > rejected).mean() > 0.9


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft 0.21 asks transformers 5.24
def test_lora_tunes_the_head_too_and_comes_back_as_a_plain_model(examples):
    model = made()
    names, head = list(model.state_dict()), model.score.weight.detach().clone()
    settings = SETTINGS | {"learning_rate": 1e-2}
    trained = train(model, examples, gap_loss, forward=REWARD, **settings, lora_rank=4).model
    assert list(trained.state_dict()) == names
    assert not torch.equal(trained.score.weight, head)
    assert not torch.equal(trained.model.layers[0].mlp.up_proj.weight, make_model(0).model.layers[0].mlp.up_proj.weight)


def test_a_stopped_training_goes_on_and_ends_as_an_undisturbed_one(examples, tmp_path):
    class StoppedError(Exception):
        pass

    def stop(step, _):
        raise StoppedError

    how = SETTINGS | {"log_steps": 3, "forward": REWARD}
    whole = train(made(), examples, gap_loss, **how)
    kept = how | {"checkpoint_steps": 3, "folder": tmp_path}
    with pytest.raises(StoppedError):
        train(made(), examples, gap_loss, **kept, probe=stop, probe_steps=[8])
    seen = []
    resumed = train(made(), examples, gap_loss, **kept, probe=lambda step, _: seen.append(step), probe_steps=range(13))
    assert seen == list(range(7, 13))
    assert weights_key(resumed.model) == weights_key(whole.model)


def test_shares_are_soft_labels_of_rewards_too():
    chosen, rejected = torch.tensor([[1.0, 9.0], [0.5, 9.0]]), torch.tensor([[0.0, 9.0], [2.0, 9.0]])
    found = soft_label_loss(gap_loss, PairRewards(chosen, rejected, share=torch.tensor([0.75, 0.5])))
    gap = np.array([1.0, -1.5])
    share = np.array([0.75, 0.5])
    np.testing.assert_allclose(found, share * np.log1p(np.exp(-gap)) + (1 - share) * np.log1p(np.exp(gap)), rtol=1e-6)


def test_votes_reach_the_objective(examples):
    voted = [Example(x.chosen, x.rejected, votes=(float(n), 1.0)) for n, x in enumerate(examples)]
    seen = []

    def watch(pairs):
        seen.extend(pairs.votes[:, 0].tolist())
        return gap_loss(pairs)

    train(made(), voted, watch, forward=REWARD, **SETTINGS | {"steps": 3, "order": "given"})
    assert seen == list(range(24))


def test_a_saved_model_loads_again_and_a_policy_is_not_taken_for_one(tokenizer, tmp_path):
    model, rows = made(outputs=2), random_responses(5, seed=3)
    RewardModel(model, tokenizer).save_pretrained(tmp_path / "reward")
    names = {path.name for path in (tmp_path / "reward").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= names
    loaded = load_reward_model(tmp_path / "reward")
    assert loaded.model.config.preflow_reward == {"name": "test"}
    assert loaded.tokenizer("a b")["input_ids"] == tokenizer("a b")["input_ids"]
    said = [response_rewards(each, rows, max_batch_tokens=100) for each in (model, loaded.model)]
    np.testing.assert_array_equal(*said)
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path / "reward")
    assert weights_key(plain) == weights_key(model)
    make_model(0).save_pretrained(tmp_path / "policy")
    with pytest.raises(ValueError, match="names no preflow_reward"):
        load_reward_model(tmp_path / "policy")
    assert "preflow_reward" not in json.loads((tmp_path / "policy" / "config.json").read_text())


def test_outputs_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"outputs are \[3, 2\] of chosen and \[3, 1\] of rejected"):
        PairRewards(torch.zeros(3, 2), torch.zeros(3, 1))
    with pytest.raises(ValueError, match=r"both must be \[B, K\]"):
        PairRewards(torch.zeros(3), torch.zeros(3))
    with pytest.raises(IndexError):  # a prompt alone has no last response token
        pair_rewards(made(), *pad([Encoded((2, 8), 2), Encoded((2, 8), 2)]), 1)
