import math

import pytest
import torch
from scipy.stats import norm

from preflow.divergence.mean_variance import (
    difference,
    kl_loss,
    log_bins,
    nll_loss,
    opposite_sides,
    with_unstated,
)

DTYPES = (torch.float32, torch.float64)


def grid(dtype):
    """Means of both signs and standard deviations over four decades, [n] each."""
    mean = torch.linspace(-30, 30, 121, dtype=dtype)
    sd = torch.tensor([0.01, 0.1, 0.6, 1.0, 3.0, 50.0], dtype=dtype)
    return (part.flatten() for part in torch.meshgrid(mean, sd, indexing="ij"))


def test_bins_worked_by_hand():
    p = log_bins(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])).exp()
    middle, slight = 2 * norm.cdf(0.5) - 1, norm.cdf(1.5) - norm.cdf(0.5)
    assert p[0].tolist() == pytest.approx([norm.sf(1.5), slight, middle, slight, norm.sf(1.5)], abs=1e-6)
    cuts = [norm.cdf((cut - 1) / 2) for cut in (-1.5, -0.5, 0.5, 1.5)]
    assert p[1].cumsum(0)[:-1].tolist() == pytest.approx(cuts, abs=1e-6)


@pytest.mark.claim("div-3")
def test_bins_are_a_mirrored_monotone_distribution_with_finite_gradients(record_claim):
    worst = {}
    for dtype in DTYPES:
        mean, sd = grid(dtype)
        p = log_bins(mean, sd).exp()
        worst["sum"] = max(worst.get("sum", 0.0), float((p.sum(1) - 1).abs().max()))
        worst["mirror"] = max(worst.get("mirror", 0.0), float((p - log_bins(-mean, sd).exp().flip(1)).abs().max()))
        above = p.flip(1).cumsum(1).reshape(121, -1, 5)  # P(at least this bin), by mean and sd
        worst["fall"] = max(worst.get("fall", 0.0), float(-above.diff(dim=0).min()))
        middles = torch.tensor([-9.0, -1.0, 0.2, 1.0, 9.0], dtype=dtype)
        worst["one-hot"] = float(
            (log_bins(middles, torch.full((5,), 1e-3, dtype=dtype)).exp() - torch.eye(5)).abs().max()
        )
        for ratio in (50, -50, 500):
            sd = torch.tensor([0.05, 1.0, 20.0], dtype=dtype, requires_grad=True)
            mean = (ratio * sd.detach()).requires_grad_()
            for counts in torch.eye(7, dtype=dtype):
                (
                    kl_loss(log_bins(mean, sd), counts.expand(3, 7)).sum() + nll_loss(mean, sd, counts[:3]).sum()
                ).backward()
            assert torch.stack([mean.grad, sd.grad]).isfinite().all()
    record_claim(
        f"sum within {worst['sum']:.0e}, mirror within {worst['mirror']:.0e}, no fall beyond {worst['fall']:.0e}, "
        f"one-hot within {worst['one-hot']:.0e} at standard deviation .001; gradients finite at ratios 50, -50 and "
        "500, in float32 and float64"
    )
    assert worst["sum"] < 1e-6
    assert worst["mirror"] < 1e-6
    assert worst["fall"] < 1e-6
    assert worst["one-hot"] < 1e-6


def test_gradients_of_the_loss_are_the_numerical_ones():
    mean = torch.tensor([0.3, -2.0, 4.0], dtype=torch.float64, requires_grad=True)
    sd = torch.tensor([0.7, 1.5, 0.4], dtype=torch.float64, requires_grad=True)
    counts = torch.tensor([[1, 0, 2, 1, 0, 0, 0], [0, 0, 0, 0, 0, 3, 1], [0, 1, 0, 0, 2, 0, 1]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda m, s: kl_loss(log_bins(m, s), counts), (mean, sd))
    assert torch.autograd.gradcheck(lambda m, s: nll_loss(m, s, torch.tensor([0.0, 0.3, 1.0]).double()), (mean, sd))


def test_tails_match_scipy_to_their_last_digits():
    mean, sd = torch.tensor([40.0, -40.0], dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    low, high = norm.logcdf(0.5 - 40), norm.logcdf(-0.5 - 40)
    tie = low + math.log(-math.expm1(high - low))
    assert log_bins(mean, sd)[:, 2].tolist() == pytest.approx([tie, tie], rel=1e-12)


def test_variance_of_the_difference_by_hand():
    mean, sd = difference(
        (torch.tensor([3.0]), torch.tensor([1.0])), (torch.tensor([3.0]), torch.tensor([4.0])), rho=0.5
    )
    assert (mean.item(), sd.item()) == (2.0, pytest.approx(math.sqrt(9 + 16 - 12)))
    with pytest.raises(ValueError, match=r"rho is 1\.0"):
        difference((mean, mean), (sd, sd), rho=1.0)


def test_unstated_preferences_are_the_union_of_two_bins():
    p = with_unstated(log_bins(torch.tensor([0.4]), torch.tensor([1.3]))).exp()[0]
    assert p[5:].tolist() == pytest.approx([norm.cdf(-0.9 / 1.3), norm.sf(0.1 / 1.3)], abs=1e-6)


def test_kl_is_zero_at_the_histogram_and_positive_elsewhere():
    counts = torch.tensor([[2.0, 1.0, 3.0, 3.0, 1.0, 0.0, 0.0]])
    at = (counts[:, :5] / 10).log()
    assert kl_loss(at, counts).item() == pytest.approx(0, abs=1e-7)
    assert kl_loss(log_bins(torch.tensor([0.0]), torch.tensor([1.0])), counts).item() > 0.01


def test_two_annotators_on_opposite_sides():
    p = log_bins(torch.tensor([0.0]), torch.tensor([1.0]))
    assert opposite_sides(p).item() == pytest.approx(2 * norm.sf(0.5) ** 2, abs=1e-6)


@pytest.mark.parametrize(
    ("bins", "counts", "complaint"),
    [
        (torch.zeros(3, 4), torch.ones(3, 7), "must be"),
        (torch.zeros(3, 5), torch.ones(3, 5), "must be"),
        (torch.zeros(2, 5), torch.tensor([[1.0] * 7, [0.0] * 7]), "1 of 2 pairs have no votes"),
    ],
)
def test_what_is_no_histogram_is_refused(bins, counts, complaint):
    with pytest.raises(ValueError, match=complaint):
        kl_loss(bins, counts)
