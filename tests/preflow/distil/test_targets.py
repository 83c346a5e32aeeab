import pytest
import torch

from preflow.distil.divergences import FORWARD_KL
from preflow.distil.states import states_along, training_states
from preflow.distil.targets import stored, truncation_error
from tests.preflow.distil.conftest import drawn, tiny


def test_a_truncated_distribution_by_hand():
    kept = stored(torch.tensor([[[0.5, 0.125, 0.25, 0.125]]]).log(), top_k=2)
    assert kept.full().exp()[0, 0].tolist() == pytest.approx([0.5, 0.125, 0.25, 0.125]), "the rest was even already"
    kept = stored(torch.tensor([[[0.1, 0.2, 0.3, 0.4]]]).log(), top_k=2)
    assert kept.full().exp()[0, 0].tolist() == pytest.approx([0.15, 0.15, 0.3, 0.4])
    assert kept.tokens.tolist() == [[[3, 2]]]
    assert kept.bytes == 2 * (4 + 4)


def test_a_certain_teacher_stays_finite():
    full = stored(torch.tensor([[[1.0, 0.0, 0.0]]]).log(), top_k=1).full()
    assert torch.isfinite(full).all()
    assert full.exp()[0, 0].tolist() == pytest.approx([1.0, 0.0, 0.0])


@torch.no_grad()
def test_the_truncation_error_falls_with_what_is_kept(student):
    teacher, prompts = tiny(0), drawn(200)
    responses = teacher.sample(prompts, torch.Generator().manual_seed(0))
    logprobs = [model.logprobs(prompts, responses) for model in (teacher, student)]
    found = [truncation_error(*logprobs, responses, FORWARD_KL, top_k=k) for k in (1, 2, 3)]
    assert found[0]["kl"] > found[1]["kl"] > 0.001
    assert found[0]["loss_error"] > found[1]["loss_error"] > 0
    assert found[2]["kl"] < 1e-5, "all but one token is all"
    assert found[2]["loss_truncated"] == pytest.approx(found[2]["loss_exact"], rel=1e-4)


def test_states_store_the_rows_that_were_asked_for(student):
    teacher, prompts = tiny(0), drawn(6)
    responses = teacher.sample(prompts, torch.Generator().manual_seed(0))
    exact, kept = (states_along(teacher, prompts, responses, top_k=k) for k in (None, 2))
    assert torch.allclose(exact.targets.full(), teacher.logprobs(prompts, responses))
    rows = torch.tensor([4, 1])
    assert torch.equal(kept.targets[rows].full(), kept.targets.full()[rows])
    assert float(kept.distances(student).mean()) < float(exact.distances(student).mean())


@pytest.mark.parametrize("top_k", [0, 4])
def test_a_truncation_that_is_none_is_refused(top_k):
    with pytest.raises(ValueError, match="take 1 to 3, or None"):
        stored(torch.zeros(1, 1, 4), top_k=top_k)


def test_a_student_share_is_the_share_of_rows_of_the_student(student):
    teacher, prompts = tiny(0), drawn(50)
    asked = {}

    def spied(model, name):
        sample = model.sample

        def count(some, generator):
            asked[name] = len(some)
            return sample(some, generator)

        model.sample = count

    spied(teacher, "teacher")
    spied(student, "student")
    states = training_states(
        teacher, student, prompts, generations=4, student_share=0.3, top_k=None,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    assert asked["teacher"] + asked["student"] == len(states) == 200
    assert 40 < asked["student"] < 80
    assert torch.equal(states.prompts[:4], prompts[:1].expand(4, -1))
