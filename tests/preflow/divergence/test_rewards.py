import json

import pytest
import torch

from preflow.divergence.rewards import BradleyTerry, MeanVariance, Rating, load_reward

SETTINGS = {"widths": (5,), "seed": 3, "inputs": {"encoder": "none"}}


def rewards():
    return [
        BradleyTerry(4, **SETTINGS),
        MeanVariance(4, **SETTINGS, rho=0.2, sigma_floor=0.1),
        Rating(4, **SETTINGS),
    ]


def pair(n=50):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, n, 4, generator=generator).unbind()


@pytest.mark.parametrize("reward", rewards(), ids=lambda reward: reward.kind)
def test_saved_and_loaded_it_says_the_same(reward, tmp_path):
    a, b = pair()
    reward.standardise_by(torch.cat([a, b * 3]))
    reward.save_pretrained(tmp_path / "new")
    loaded = load_reward(tmp_path / "new")
    assert type(loaded) is type(reward)
    assert loaded.config == reward.config
    assert torch.equal(loaded.share_a(a, b), reward.share_a(a, b))
    assert all(torch.equal(*both) for both in zip(loaded.moments(a), reward.moments(a), strict=True))
    first = (tmp_path / "new" / "model.safetensors").read_bytes()
    loaded.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == first


def test_an_unknown_kind_is_refused(tmp_path):
    rewards()[0].save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text()) | {"kind": "oracle"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="kind 'oracle'; known are"):
        load_reward(tmp_path)


@pytest.mark.parametrize("reward", rewards(), ids=lambda reward: reward.kind)
def test_a_swap_turns_the_share_round(reward):
    a, b = pair()
    assert torch.allclose(reward.share_a(a, b) + reward.share_a(b, a), torch.ones(50), atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("reward", rewards()[1:], ids=lambda reward: reward.kind)
def test_bins_are_a_distribution_and_mirror(reward):
    a, b = pair()
    p = reward.log_bins(a, b).exp()
    assert torch.allclose(p.sum(1), torch.ones(50), atol=1e-6)
    assert torch.allclose(p, reward.log_bins(b, a).exp().flip(1), atol=1e-6)
    assert float(p.std(0).max()) > 0.01, "pairs differ"


def test_a_spread_never_falls_below_its_floor():
    reward = MeanVariance(4, **SETTINGS, rho=0.0, sigma_floor=0.1)
    with torch.no_grad():
        reward.net[-1].bias[1] = -200.0
    assert reward.moments(pair()[0])[1].min().item() == pytest.approx(0.1)


def test_bins_of_two_ratings_by_hand():
    reward = Rating(1, widths=(), seed=0, inputs={})
    with torch.no_grad():  # rating 4 or 2, half each, where the input is 1; rating 2 where it is -1
        low = -1e4
        reward.net[0].weight.copy_(torch.tensor([[0.0], [0.0], [0.0], [0.0], [-low]]))
        reward.net[0].bias.copy_(torch.tensor([low, low, 0.0, low, low]))
    both, two = torch.ones(1, 1), -torch.ones(1, 1)
    assert reward.log_bins(both, two).exp()[0].tolist() == pytest.approx([0, 0, 0.5, 0, 0.5], abs=1e-6)
    mu, sigma = reward.moments(both)
    assert (mu.item(), sigma.item()) == (3.0, 1.0)
    assert reward.share_a(both, two).item() == pytest.approx(0.75)
