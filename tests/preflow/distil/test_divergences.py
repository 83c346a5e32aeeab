from math import log

import pytest
import torch

from preflow.distil.divergences import Loss, kl
from preflow.distil.language import PAD

P, Q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.5, 0.25])
ONE = torch.tensor([[1]])


def of(loss, p=P, q=Q, responses=ONE):
    return float(loss(p.log().expand(1, responses.shape[1], 3), q.log().expand(1, responses.shape[1], 3), responses))


def test_every_loss_by_hand():
    forward = 0.5 * log(2)  # .5 log(.5/.25) + .5 log(.5/.5); the third token adds nothing
    assert of(Loss(name="forward_kl")) == pytest.approx(forward)
    assert of(Loss(name="sft")) == pytest.approx(log(2))
    p, q = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.5, 0.25])
    forward, reverse = (0.5 * log(2) - 0.25 * log(2),) * 2
    assert of(Loss(name="reverse_kl"), p, q) == pytest.approx(reverse)
    assert of(Loss(name="jeffreys", weight=0.25), p, q) == pytest.approx(0.75 * forward + 0.25 * reverse)
    mixed = 0.375  # half of .5 and .25: Jensen-Shannon
    js = 0.5 * 2 * (0.5 * log(0.5 / mixed) + 0.25 * log(0.25 / mixed))
    assert of(Loss(name="generalised_js", weight=0.5), p, q) == pytest.approx(js, abs=1e-6)


def test_generalised_js_goes_over_into_both_kls():
    p, q = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.2, 0.5, 0.3])
    w = 1e-3
    small, large = (of(Loss(name="generalised_js", weight=one), p.double(), q.double()) for one in (w, 1 - w))
    assert small / w == pytest.approx(float(kl(p.log(), q.log())), rel=0.01)
    assert large / w == pytest.approx(float(kl(q.log(), p.log())), rel=0.01)


def test_a_temperature_divides_both_logits():
    p, q = torch.tensor([0.64, 0.16, 0.2]), torch.tensor([0.2, 0.2, 0.6])
    soft_p, soft_q = ((x.sqrt() / x.sqrt().sum()) for x in (p, q))
    assert of(Loss(name="forward_kl", temperature=2.0), p, q) == pytest.approx(
        of(Loss(name="forward_kl"), soft_p, soft_q)
    )


def test_padding_adds_neither_loss_nor_gradient():
    logits = torch.zeros(1, 3, 3, requires_grad=True)
    teacher = torch.full((1, 3, 3), 7.0)
    teacher[:, 0] = torch.tensor([0.5, 0.25, 0.25]).log()
    for loss in (Loss(name="forward_kl"), Loss(name="sft")):
        value = loss(teacher, logits.log_softmax(-1), torch.tensor([[0, PAD, PAD]]))
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        assert torch.isfinite(value).all()
        assert gradient[:, 0].abs().sum() > 0
        assert (gradient[:, 1:] == 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "total_variation"}, "'total_variation' is unknown; known are"),
        ({"name": "jeffreys"}, "give one to"),
        ({"name": "forward_kl", "weight": 0.5}, "give one to"),
        ({"name": "generalised_js", "weight": 1.0}, "take a loss without weight"),
        ({"name": "forward_kl", "temperature": 0.0}, "must be positive"),
        ({"name": "sft", "temperature": 2.0}, "and 1 for sft"),
    ],
)
def test_what_is_no_loss_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Loss(**settings)
