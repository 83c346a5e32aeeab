"""The loss of a verdict is a ranking loss with a penalty on the margin, by either convention of smoothing."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, logsigmoid

from preflow.generative_reward.losses import best_margin, smoothed_ranking_loss, verdict_loss

SMOOTHING = (0.0, 0.05, 0.1, 0.15)


def drawn(n=1000):
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(n, 2, generator=generator, dtype=torch.float64)
    winner = torch.randint(2, (n,), generator=generator)
    rows = torch.arange(n)
    return logits, winner, logits[rows, winner] - logits[rows, 1 - winner]


@pytest.mark.claim("gram-1")
def test_it_is_the_smoothed_ranking_loss(record_claim):
    logits, winner, margin = drawn()
    right, wrong = (cross_entropy(logits, who, reduction="none") for who in (winner, 1 - winner))
    worst, nearest = 0.0, math.inf
    for e in SMOOTHING:
        torchs = verdict_loss(logits, winner, label_smoothing=e, convention="torch")
        papers = verdict_loss(logits, winner, label_smoothing=e, convention="paper")
        expected = [
            (torchs, -logsigmoid(margin) + e / 2 * margin),
            (papers, -logsigmoid(margin) + e * margin),
            (papers, (1 - e) * right + e * wrong),
            (torchs, smoothed_ranking_loss(margin, label_smoothing=e, convention="torch")),
            (papers, smoothed_ranking_loss(margin, label_smoothing=e, convention="paper")),
        ]
        worst = max(worst, *(float((found - other).abs().max()) for found, other in expected))
        nearest = min(nearest, float((torchs - papers).abs().max())) if e else nearest
    record_claim(f"off by at most {worst:.0e}; the conventions differ by up to {nearest:.2f} or more", worst <= 1e-12)
    assert worst <= 1e-12
    assert nearest > 0.1


def test_torchs_smoothing_is_half_of_the_papers():
    logits, winner, _ = drawn()
    torchs = verdict_loss(logits, winner, label_smoothing=0.1, convention="torch")
    torch.testing.assert_close(torchs, verdict_loss(logits, winner, label_smoothing=0.05, convention="paper"))
    torch.testing.assert_close(torchs, cross_entropy(logits, winner, label_smoothing=0.1, reduction="none"))


def test_by_hand():
    logits = torch.log(torch.tensor([[0.75, 0.25], [0.25, 0.75]]))
    found = verdict_loss(logits, torch.tensor([0, 0]), label_smoothing=0.2, convention="paper")
    by_hand = [-0.8 * math.log(0.75) - 0.2 * math.log(0.25), -0.8 * math.log(0.25) - 0.2 * math.log(0.75)]
    assert found.tolist() == pytest.approx(by_hand)


def test_three_verdicts_share_what_the_right_one_gives_up():
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    winner = torch.tensor([0, 1, 2, 0])
    papers = verdict_loss(logits, winner, label_smoothing=0.2, convention="paper")
    torch.testing.assert_close(papers, verdict_loss(logits, winner, label_smoothing=0.3, convention="torch"))


@pytest.mark.claim("gram-2")
def test_one_pair_is_fitted_to_a_finite_margin(record_claim):
    found = {e: fitted_margin(e) for e in SMOOTHING}
    best = {e: best_margin(label_smoothing=e, convention="torch") for e in SMOOTHING}
    worst = max(abs(found[e] - best[e]) for e in SMOOTHING[1:])
    figure = ", ".join(f"{found[e]:.3f}" for e in SMOOTHING[1:])
    record_claim(f"{figure}, off by at most {worst:.0e}; without smoothing {found[0.0]:.1f}", worst <= 1e-3)
    assert [round(best[e], 3) for e in SMOOTHING[1:]] == [3.664, 2.944, 2.512]
    assert worst <= 1e-3
    assert found[0.0] > 10
    assert best[0.0] == math.inf
    assert best_margin(label_smoothing=0.05, convention="paper") == pytest.approx(best[0.1])


def fitted_margin(e):
    logits = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=0.2)
    for _ in range(1500):
        optimiser.zero_grad()
        verdict_loss(logits, torch.tensor([0]), label_smoothing=e, convention="torch").sum().backward()
        optimiser.step()
    return float((logits[0, 0] - logits[0, 1]).detach())


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"label_smoothing": 0.5, "convention": "paper"}, r"must be in \[0, 0.5\)"),
        ({"label_smoothing": 1.0, "convention": "torch"}, r"must be in \[0, 1\)"),
        ({"label_smoothing": -0.1, "convention": "torch"}, "label_smoothing is -0.1"),
        ({"label_smoothing": 0.1, "convention": "jax"}, "known are paper and torch"),
    ],
)
def test_bad_smoothing_is_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        verdict_loss(torch.zeros(1, 2), torch.tensor([0]), **settings)


@pytest.mark.parametrize(("logits", "winner"), [((3,), (3,)), ((3, 1), (3,)), ((3, 2), (2,)), ((3, 2), (3, 1))])
def test_wrong_shapes_are_refused(logits, winner):
    with pytest.raises(ValueError, match="winner \\[B\\]; got"):
        verdict_loss(
            torch.zeros(logits), torch.zeros(winner, dtype=torch.int64), label_smoothing=0.1, convention="paper"
        )
