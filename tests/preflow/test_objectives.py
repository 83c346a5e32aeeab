"""Objectives against values worked by hand, finite differences, and the known properties of each loss."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from preflow.objectives import PairLogprobs, bradley_terry, dpo, ipo, robust_dpo, sft, simpo, soft_label_loss

PAIRWISE = {
    "dpo": partial(dpo, beta=0.3, label_smoothing=0.0),
    "dpo smoothed": partial(dpo, beta=0.3, label_smoothing=0.2),
    "robust": partial(robust_dpo, beta=0.3, label_smoothing=0.2),
    "ipo": partial(ipo, beta=0.3),
    "simpo": partial(simpo, beta=2.0, target_margin=0.5),
}


def pairs(chosen, rejected, chosen_reference=(0.0,), rejected_reference=(0.0,), tokens=(4, 2)):
    values = [torch.tensor(v, dtype=torch.float64) for v in (chosen, rejected, chosen_reference, rejected_reference)]
    return PairLogprobs(
        chosen=values[0],
        chosen_tokens=torch.full_like(values[0], tokens[0]).long(),
        rejected=values[1],
        rejected_tokens=torch.full_like(values[0], tokens[1]).long(),
        chosen_reference=values[2],
        rejected_reference=values[3],
    )


# log-ratios: chosen -4 - (-5) = 1, rejected -8 - (-6) = -2; so D = 3
WORKED = pairs([-4.0], [-8.0], [-5.0], [-6.0])


def test_dpo_by_hand():
    # beta D = 0.9; -log s(0.9) = ln(1 + e^-0.9) = ln 1.40656966 = 0.34115387
    assert dpo(WORKED, beta=0.3, label_smoothing=0.0).item() == pytest.approx(0.34115387, abs=1e-7)


def test_label_smoothing_by_hand():
    # -log s(-0.9) = 0.9 + 0.34115387; 0.8 * 0.34115387 + 0.2 * 1.24115387 = 0.52115387
    assert dpo(WORKED, beta=0.3, label_smoothing=0.2).item() == pytest.approx(0.52115387, abs=1e-7)


def test_robust_by_hand():
    # (0.8 * 0.34115387 - 0.2 * 1.24115387) / 0.6 = 0.02469232 / 0.6
    assert robust_dpo(WORKED, beta=0.3, label_smoothing=0.2).item() == pytest.approx(0.04115387, abs=1e-7)


def test_robust_is_unbiased_under_flips():
    flipped = pairs([-8.0], [-4.0], [-6.0], [-5.0])
    loss = partial(robust_dpo, beta=0.3, label_smoothing=0.2)
    mean = 0.8 * loss(WORKED) + 0.2 * loss(flipped)
    assert mean.item() == pytest.approx(dpo(WORKED, beta=0.3, label_smoothing=0.0).item(), abs=1e-12)


def test_ipo_by_hand():
    # h = 1/4 - (-2)/2 = 1.25; (1.25 - 1/0.6)^2 = (-5/12)^2
    assert ipo(WORKED, beta=0.3).item() == pytest.approx(25 / 144, abs=1e-12)


def test_simpo_by_hand():
    # 2 * (-4/4 - (-8)/2) - 0.5 = 5.5; ln(1 + e^-5.5)
    assert simpo(WORKED, beta=2.0, target_margin=0.5).item() == pytest.approx(math.log1p(math.exp(-5.5)), abs=1e-12)


def test_sft_mean_is_the_loss_per_token():
    batch = PairLogprobs(torch.tensor([-6.0, -1.0]), torch.tensor([5, 2]))
    assert sft(batch).mean().item() == pytest.approx(7 / 7)


def test_bradley_terry_by_hand():
    loss = bradley_terry(torch.tensor([2.0]), torch.tensor([0.5]), torch.tensor([1.0]))  # -log s(2 - 0.5 - 1)
    assert loss.item() == pytest.approx(math.log1p(math.exp(-0.5)))
    assert bradley_terry(torch.tensor([2.0]), torch.tensor([2.0]), None).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.49])
def test_equal_to_the_reference_gives_ln_2(label_smoothing):
    start = pairs([-5.0], [-6.0], [-5.0], [-6.0])
    assert dpo(start, beta=0.3, label_smoothing=label_smoothing).item() == pytest.approx(math.log(2))


def test_loss_is_ln_2_in_the_limit_of_small_beta():
    assert dpo(WORKED, beta=1e-6, label_smoothing=0.0).item() == pytest.approx(math.log(2), abs=1e-5)


@pytest.mark.parametrize("label_smoothing", [0.1, 0.3])
def test_smoothed_optimum_is_where_the_sigmoid_is_one_minus_epsilon(label_smoothing):
    margin = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    zero = torch.zeros(1, dtype=torch.float64)
    fit = torch.optim.LBFGS([margin], max_iter=50)

    def closure():
        fit.zero_grad()
        batch = PairLogprobs(margin, torch.ones(1), zero, torch.ones(1), zero, zero)
        loss = dpo(batch, beta=0.5, label_smoothing=label_smoothing).mean()
        loss.backward()
        return loss

    fit.step(closure)
    assert torch.sigmoid(0.5 * margin).item() == pytest.approx(1 - label_smoothing, abs=1e-4)


@pytest.mark.parametrize("name", PAIRWISE)
def test_gradients_equal_finite_differences(name):
    rng = torch.Generator().manual_seed(0)
    chosen, rejected = (torch.randn(5, generator=rng, dtype=torch.float64, requires_grad=True) for _ in range(2))
    fixed = [torch.randn(5, generator=rng, dtype=torch.float64) for _ in range(2)]
    lengths = torch.arange(1, 6), torch.arange(2, 7)
    assert torch.autograd.gradcheck(
        lambda c, r: PAIRWISE[name](PairLogprobs(c, lengths[0], r, lengths[1], *fixed)), (chosen, rejected)
    )


def test_bradley_terry_gradient_equals_finite_differences():
    values = [torch.linspace(-1, k, 4, dtype=torch.float64, requires_grad=True) for k in (1, 2, 3)]
    assert torch.autograd.gradcheck(bradley_terry, values)


@pytest.mark.parametrize("name", PAIRWISE)
def test_every_objective_raises_chosen_and_lowers_rejected(name):
    chosen, rejected = (torch.tensor([-5.0], requires_grad=True) for _ in range(2))
    reference = torch.tensor([-5.0])
    PAIRWISE[name](
        PairLogprobs(chosen, torch.tensor([3]), rejected, torch.tensor([3]), reference, reference)
    ).backward()
    assert chosen.grad.item() < 0 < rejected.grad.item()


@pytest.mark.parametrize("objective", [dpo, robust_dpo])
@pytest.mark.parametrize("label_smoothing", [0.5, 0.7, -0.1, math.nan])
def test_label_smoothing_without_information_is_refused(objective, label_smoothing):
    with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 0.5\)"):
        objective(WORKED, beta=0.1, label_smoothing=label_smoothing)


@pytest.mark.parametrize("beta", [0.0, -1.0, math.nan])
def test_beta_that_is_not_positive_is_refused(beta):
    with pytest.raises(ValueError, match="beta must be above 0"):
        dpo(WORKED, beta=beta, label_smoothing=0.0)


def test_shapes_that_would_broadcast_are_refused():
    with pytest.raises(ValueError, match=r"must all be \[B\]"):
        bradley_terry(torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(3))
    with pytest.raises(ValueError, match=r"must all be \[B\]"):
        bradley_terry(torch.zeros(3), torch.zeros(3), torch.zeros(3, 1))


def test_missing_sides_are_named():
    lone = PairLogprobs(torch.zeros(1), torch.ones(1))
    with pytest.raises(ValueError, match="no rejected response"):
        simpo(lone, beta=1.0, target_margin=0.0)
    paired = PairLogprobs(torch.zeros(1), torch.ones(1), torch.zeros(1), torch.ones(1))
    with pytest.raises(ValueError, match="needs reference log-probabilities"):
        dpo(paired, beta=1.0, label_smoothing=0.0)


# Soft labels


def shared(share, like=WORKED):
    return replace(like, share=torch.tensor([share], dtype=torch.float64))


def test_swapped_pairs_have_everything_of_the_other_side():
    assert vars(shared(0.75).swapped()) == {
        "chosen": WORKED.rejected,
        "chosen_tokens": WORKED.rejected_tokens,
        "rejected": WORKED.chosen,
        "rejected_tokens": WORKED.chosen_tokens,
        "chosen_reference": WORKED.rejected_reference,
        "rejected_reference": WORKED.chosen_reference,
        "share": torch.tensor([0.25], dtype=torch.float64),
    }
    assert vars(shared(0.75).swapped().swapped()) == vars(shared(0.75))


def test_a_share_of_four_fifths_is_label_smoothing_of_one_fifth():
    # worked above: 0.8 * 0.34115387 + 0.2 * 1.24115387 = 0.52115387
    plain, smoothed = PAIRWISE["dpo"], PAIRWISE["dpo smoothed"]
    assert soft_label_loss(plain, shared(0.8)).item() == pytest.approx(0.52115387, abs=1e-7)
    assert soft_label_loss(plain, shared(0.8)).item() == pytest.approx(smoothed(WORKED).item(), abs=1e-12)


def test_soft_ipo_by_hand():
    # swapped, h = -1.25; (-1.25 - 1/0.6)^2 = (35/12)^2; 3/4 * 25/144 + 1/4 * 1225/144
    assert soft_label_loss(PAIRWISE["ipo"], shared(0.75)).item() == pytest.approx(325 / 144, abs=1e-12)


@pytest.mark.parametrize("name", PAIRWISE)
def test_a_share_of_one_is_a_hard_label_to_the_bit_and_of_none_the_other_one(name):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(4, 50, generator=generator) * 30
    leaves = [value.clone().requires_grad_() for value in values[:2]]
    tokens = {"chosen_tokens": torch.full((50,), 4), "rejected_tokens": torch.full((50,), 2)}
    references = {"chosen_reference": values[2], "rejected_reference": values[3]}
    hard = PairLogprobs(chosen=leaves[0], rejected=leaves[1], **tokens, **references)
    losses = {
        share: soft_label_loss(
            PAIRWISE[name], replace(hard, share=share if share is None else torch.full((50,), share))
        )
        for share in (None, 1.0, 0.0)
    }
    assert torch.equal(losses[None], PAIRWISE[name](hard))
    assert torch.equal(losses[1.0], losses[None])
    assert torch.equal(losses[0.0], PAIRWISE[name](hard.swapped()))
    grads = [torch.autograd.grad(losses[share].mean(), leaves, retain_graph=True) for share in (None, 1.0)]
    assert all(torch.equal(*both) for both in zip(*grads, strict=True))


@pytest.mark.parametrize("name", ["dpo", "simpo", "ipo"])
def test_even_votes_pull_to_no_margin(name):
    level = PairLogprobs(torch.tensor([-3.0]), torch.tensor([3]), torch.tensor([-3.0]), torch.tensor([3]))
    level = replace(
        level, chosen_reference=torch.zeros(1), rejected_reference=torch.zeros(1), share=torch.full((1,), 0.5)
    )
    chosen = level.chosen.clone().requires_grad_()
    soft_label_loss(PAIRWISE[name], replace(level, chosen=chosen)).backward()
    assert chosen.grad.item() == pytest.approx(0, abs=1e-7)


def test_shares_of_lone_responses_and_of_other_shapes_are_refused():
    lone = PairLogprobs(chosen=torch.zeros(1), chosen_tokens=torch.ones(1), share=torch.ones(1))
    with pytest.raises(ValueError, match="the examples have no rejected response"):
        soft_label_loss(sft, lone)
    with pytest.raises(ValueError, match=r"must all be \[B\]"):
        replace(WORKED, share=torch.ones(2))
