"""Concept losses: the fixed point, the gradients and the sampling of CPO, and the robust losses by hand."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch.special import logit

from preflow.concepts.cpo import CPO
from preflow.concepts.loss import Beside
from preflow.concepts.losses import LOSSES, concept_loss
from preflow.concepts.robust import BCE, ForwardBCE

NOTHING = Beside()


def labels_with(rate, n=10):
    """Labels of one concept, [n, 1], of which exactly the share `rate` is wrong (0 where 1 is true)."""
    values = torch.ones(n, 1, dtype=torch.float64)
    values[: round(rate * n)] = 0
    return values


def fitted_logit(loss, labels, beside, *, lr, steps=300):
    """The logit, one for all items, at which the loss no longer pulls."""
    z = torch.zeros((), dtype=torch.float64, requires_grad=True)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(loss(z.expand(labels.shape), labels, beside).mean(), z)
        z = (z - lr * slope).detach().requires_grad_()
    return z.item()


def random_cells(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    z = 4 * torch.randn(n, 1, dtype=torch.float64, generator=generator)
    c = (torch.rand(n, 1, generator=generator) < 0.5).double()
    return z.requires_grad_(), c


def gradient(loss, z, c, beside=NOTHING):
    return torch.autograd.grad(loss(z, c, beside).sum(), z)[0]


@pytest.mark.claim("cpo-1")
def test_the_fitted_logit_is_the_shrunk_posterior_between_label_and_prior(record_claim):
    worst, bce = {"expected": 0.0, "sampled": 0.0}, []
    generator = torch.Generator().manual_seed(0)
    grid = list(product((0.1, 0.5, 1.0, 2.0), (0.1, 0.3), (0.0, 1.0)))
    for beta, rate, z0 in grid:
        labels = labels_with(rate)
        target = (math.log((1 - rate) / rate) + beta * z0) / (1 + beta)
        for kind, draws in (("expected", 0), ("sampled", 5000)):  # of 10 items: 50,000
            uniforms = torch.rand(draws, 10, 1, generator=generator, dtype=torch.float64)
            beside = Beside(prior=torch.full((10, 1), z0, dtype=torch.float64), uniforms=uniforms)
            found = fitted_logit(CPO(beta=beta, joint=False, draws=draws), labels, beside, lr=4 / beta, steps=80)
            worst[kind] = max(worst[kind], abs(found - target))
        bce.append(abs(fitted_logit(BCE(), labels, beside, lr=4) - target))
    record_claim(
        f"off by at most {worst['expected']:.4f} (expected) and {worst['sampled']:.3f} (50,000 draws) on {len(grid)} "
        f"combinations of beta, e and z0; BCE by {np.median(bce):.2f} in the median, {max(bce):.2f} at most"
    )
    assert len(grid) == 16
    assert worst["expected"] <= 0.02
    assert worst["sampled"] <= 0.10
    assert np.median(bce) > 0.10


def test_the_joint_form_has_the_same_fixed_point():
    rate, beta = torch.tensor([0.1, 0.3, 0.2], dtype=torch.float64), 0.7
    z0 = torch.tensor([1.0, -0.5, 0.0], dtype=torch.float64)
    fixed = (logit(1 - rate) + beta * z0) / (1 + beta)
    corners = torch.tensor(list(product((0.0, 1.0), repeat=3)), dtype=torch.float64)

    def pull(z):
        """Gradient of the loss in expectation over labels and samples, all 8 x 8 of them."""
        chance = torch.where(corners == 1, 1 - rate, rate).prod(1)
        sampled = torch.where(corners == 1, torch.sigmoid(z), torch.sigmoid(-z)).prod(1).detach()
        z = z.requires_grad_()
        total = torch.zeros((), dtype=torch.float64)
        for c_prime, weight in zip(corners, sampled, strict=True):
            uniforms = (1 - c_prime).expand(1, 8, 3)  # 0 gives a 1, 1 gives a 0
            beside = Beside(prior=z0.expand(8, 3), uniforms=uniforms)
            total = (
                total + weight * (chance * CPO(beta=beta, joint=True, draws=1)(z.expand(8, 3), corners, beside)).sum()
            )
        return torch.autograd.grad(total, z)[0]

    assert pull(fixed.clone()).abs().max() < 1e-12
    assert pull(fixed + 0.1).abs().max() > 1e-3


@pytest.mark.claim("cpo-2")
def test_the_gradient_of_the_expected_loss_is_the_closed_form(record_claim):
    z, c = random_cells(10_000)
    beta = 3 * torch.rand(10, generator=torch.Generator().manual_seed(1)).double() + 0.01
    worst = 0.0
    for part, b in zip(torch.arange(10_000).chunk(10), beta.tolist(), strict=True):
        s, zs = 2 * c[part] - 1, z[part].detach()
        closed = -s * b * torch.sigmoid(-s * zs) * torch.sigmoid(-b * s * zs)
        found = gradient(CPO(beta=b, joint=False, draws=0), z, c)[part]
        worst = max(worst, float(((found - closed) / closed).abs().max()))
    record_claim(f"relative error at most {worst:.0e}")
    assert worst < 1e-5


@pytest.mark.claim("cpo-3")
def test_cpo_never_pulls_harder_than_beta_times_bce(record_claim):
    z, c = random_cells(100_000)
    bce = gradient(BCE(), z, c).abs()
    excess = {
        b: float((gradient(CPO(beta=b, joint=False, draws=0), z, c).abs() / (b * bce)).max()) for b in (0.1, 1, 2)
    }
    ratio = gradient(CPO(beta=1.0, joint=False, draws=0), z, c).abs() / bce
    off = float((ratio - torch.sigmoid(-(2 * c - 1) * z.detach())).abs().max())
    record_claim(f"at most {max(excess.values()):.6f} of beta BCE over beta .1, 1, 2; ratio off 1 - p_c by {off:.0e}")
    assert max(excess.values()) <= 1 + 1e-12
    assert off < 1e-12


@pytest.mark.claim("cpo-4")
@pytest.mark.parametrize("joint", [False, True])
def test_a_sample_equal_to_the_label_teaches_nothing_and_samples_carry_no_gradient(joint, record_claim):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(6, 4, dtype=torch.float64, generator=generator).requires_grad_()
    c = (torch.rand(6, 4, generator=generator) < 0.5).double()
    loss = CPO(beta=0.7, joint=joint, draws=1)
    same = Beside(uniforms=(1 - c)[None])  # a draw of 0 gives concept 1, a draw of 1 gives 0
    values = loss(z, c, same)
    assert values.tolist() == pytest.approx([math.log(2)] * 6, abs=1e-12)
    assert gradient(loss, z, c, same).abs().max() == 0

    drawn = Beside(uniforms=torch.rand(1, 6, 4, generator=generator, dtype=torch.float64))
    found, h = gradient(loss, z, c, drawn), 1e-6
    step = torch.zeros_like(z)
    numeric = torch.zeros_like(z)
    for i, j in product(range(6), range(4)):
        step[i, j] = h
        up, down = (loss((z + sign * step).detach(), c, drawn).sum() for sign in (1, -1))
        numeric[i, j], step[i, j] = (up - down) / (2 * h), 0
    off = float((found - numeric).abs().max())
    record_claim(f"loss log 2, gradient exactly 0; with the sample held, autograd off finite differences by {off:.0e}")
    assert found.abs().max() > 0.01
    assert off < 1e-7


@pytest.mark.claim("cpo-5")
def test_joint_is_per_concept_for_one_concept_and_scaled_bce_for_small_beta(record_claim):
    generator = torch.Generator().manual_seed(0)
    z, c = random_cells(500)
    uniforms = torch.rand(20, 500, 1, generator=generator, dtype=torch.float64)
    forms = [CPO(beta=0.8, joint=joint, draws=20) for joint in (False, True)]
    one, other = (loss(z, c, Beside(uniforms=uniforms)) for loss in forms)
    assert torch.allclose(one, other, atol=1e-12)

    z = torch.tensor([[1.0, -0.8, 0.3, -1.2, 0.0]], dtype=torch.float64, requires_grad=True)
    c = torch.tensor([[1.0, 1.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    draws, beta = 200_000, 1e-3
    beside = Beside(uniforms=torch.rand(draws, 1, 5, generator=generator, dtype=torch.float64))
    found = gradient(CPO(beta=beta, joint=True, draws=draws), z, c, beside)
    wanted = beta / 2 * gradient(BCE(reduction="sum"), z, c)
    off = float(((found - wanted) / wanted).abs().max())
    record_claim(f"equal for k = 1; at beta .001, {draws:,} samples, off beta / 2 BCE by at most {off:.1%}")
    assert off < 0.02


def test_robust_losses_by_hand():
    z, c = torch.tensor([[math.log(3.0)]], dtype=torch.float64), torch.tensor([[1.0]], dtype=torch.float64)  # p_c = 3/4
    rates = Beside(flip_rates=torch.tensor([0.2], dtype=torch.float64))
    wanted = {
        concept_loss("bce"): -math.log(0.75),
        concept_loss("smoothed_bce", smoothing=0.2): -0.9 * math.log(0.75) - 0.1 * math.log(0.25),
        concept_loss("generalised_ce", q=0.7): (1 - 0.75**0.7) / 0.7,
        concept_loss("symmetric_bce", weight=0.5): -0.5 * math.log(0.75) + 4 * 0.25,
        concept_loss("forward_bce"): -math.log(0.8 * 0.75 + 0.2 * 0.25),
        concept_loss("cpo", beta=2.0, draws=0): 0.75 * math.log(2) - 0.25 * math.log(9 / 10),
    }
    assert {loss.name for loss in wanted} == set(LOSSES) - {"cpo_joint"}
    for loss, value in wanted.items():
        assert loss(z, c, rates).item() == pytest.approx(value, abs=1e-12), loss


def test_the_joint_loss_by_hand():
    z = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    c = torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64)
    uniforms = torch.tensor([[[1.0, 1.0, 1.0]], [[0.0, 0.0, 0.0]]], dtype=torch.float64)  # samples 000 and 111
    prior = torch.tensor([[0.5, 0.0, 0.0]], dtype=torch.float64)
    loss = CPO(beta=0.5, joint=True, draws=2)(z, c, Beside(prior=prior, uniforms=uniforms))
    margins = [0.5 * (0.5 - 2.0), 0.5 * -0.5]
    assert loss.item() == pytest.approx(np.mean([math.log1p(math.exp(-m)) for m in margins]), abs=1e-12)


def test_forward_correction_finds_the_clean_probability_where_bce_finds_the_noisy_one():
    labels = labels_with(0.34, n=50)  # 80 % present, 30 % flipped: .8 * .7 + .2 * .3 = .62; and .66 is its e = .2 case
    beside = Beside(flip_rates=torch.tensor([0.2], dtype=torch.float64))
    found = [torch.sigmoid(torch.tensor(fitted_logit(loss, labels, beside, lr=4))) for loss in (ForwardBCE(), BCE())]
    assert [p.item() for p in found] == pytest.approx([(0.66 - 0.2) / 0.6, 0.66], abs=1e-3)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_cell_without_a_label_has_no_loss_and_no_gradient(name):
    settings = {
        "smoothed_bce": {"smoothing": 0.1},
        "generalised_ce": {"q": 0.7},
        "symmetric_bce": {"weight": 1.0},
        "cpo": {"beta": 0.5, "draws": 2},
        "cpo_joint": {"beta": 0.5, "draws": 2},
    }.get(name, {})
    loss, z = concept_loss(name, **settings), torch.tensor([[0.3, -2.0], [5.0, 1.0]], requires_grad=True)
    c = torch.tensor([[1.0, math.nan], [math.nan, math.nan]])
    beside = Beside(uniforms=torch.full((2, 2, 2), 0.9), flip_rates=torch.tensor([0.1, 0.2]))
    values = loss(z, c, beside)
    alone = loss(z[:1, :1], c[:1, :1], Beside(uniforms=torch.full((2, 1, 1), 0.9), flip_rates=torch.tensor([0.1])))
    slope = torch.autograd.grad(values.sum(), z)[0]
    assert values[0].item() == pytest.approx(alone.item())
    assert values[1].item() == pytest.approx(math.log(2) if name == "cpo_joint" else 0)
    assert slope[0, 0] != 0
    assert slope.flatten()[1:].tolist() == [0, 0, 0]


def test_sum_is_the_mean_times_the_known_concepts():
    z, c = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), torch.ones(5, 4)
    c[0, 0] = math.nan
    mean, total = (concept_loss("bce", reduction=how)(z, c, NOTHING) for how in ("mean", "sum"))
    assert torch.allclose(total, mean * torch.tensor([3, 4, 4, 4, 4]))


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("dpo", {}, "'dpo' is unknown; known are"),
        ("bce", {"beta": 1.0}, "beta"),
        ("cpo", {"beta": 0.0, "draws": 1}, "beta is 0.0"),
        ("cpo_joint", {"beta": 0.1, "draws": 0}, "the joint form is sampled"),
        ("bce", {"reduction": "max"}, "reduction 'max' is unknown"),
    ],
)
def test_losses_that_do_not_exist_are_refused(name, settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        concept_loss(name, **settings)


def test_missing_draws_and_rates_are_named():
    z, c = torch.zeros(2, 3), torch.ones(2, 3)
    with pytest.raises(ValueError, match="draws 2 samples"):
        CPO(beta=1.0, joint=True, draws=2)(z, c, NOTHING)
    for rates in (None, torch.tensor([0.1, 0.5, 0.2])):
        with pytest.raises(ValueError, match=r"flip rate in \[0, 1/2\)"):
            ForwardBCE()(z, c, Beside(flip_rates=rates))
