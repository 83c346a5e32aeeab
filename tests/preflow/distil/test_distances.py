import pytest
import torch

from preflow.distil.distances import exact_kl, monte_carlo_kl, rao_blackwell_kl
from preflow.distil.states import held_out_states
from preflow.distil.training import HeldOut
from tests.preflow.distil.conftest import TINY, drawn, tiny

DRAWS = 20_000


def estimates(p, q, prompt):
    """Both estimators on the same responses of P, [DRAWS] each."""
    prompts = prompt.expand(DRAWS, -1)
    responses = p.sample(prompts, torch.Generator().manual_seed(0))
    return [estimate(p, q, prompts, responses) for estimate in (monte_carlo_kl, rao_blackwell_kl)]


def by_positions(p, q, prompt):
    """KL by the chain rule, written anew: recursion over the tokens, in float64."""

    def after(tokens):
        if len(tokens) == TINY.length:
            return 0.0
        row = torch.tensor([[*tokens, *[0] * (TINY.length - len(tokens))]])
        log_p, log_q = (model.logprobs(prompt, row)[0, len(tokens)] for model in (p, q))
        here = float((log_p.exp() * (log_p - log_q)).sum())
        return here + sum(float(log_p[v].exp()) * after([*tokens, v]) for v in range(TINY.vocabulary))

    return after([])


@pytest.mark.claim("hack-1")
@torch.no_grad()
def test_distances_are_exact_on_an_enumerable_model(record_claim):
    p, q, prompts = tiny(0).double(), tiny(1).double(), drawn(3).double()
    exact = exact_kl(p, q, prompts)
    assert float(exact.min()) > 0.1
    chain = torch.tensor([by_positions(p, q, one[None]) for one in prompts], dtype=torch.float64)
    worst = float((exact - chain).abs().max())
    single = float((exact_kl(tiny(0), tiny(1), drawn(3)).double() - exact).abs().max())
    assert worst < 1e-9
    assert single < 1e-5
    gaps = []
    for at in range(3):
        carlo, rao = estimates(p, q, prompts[at])
        assert float(rao.min()) >= 0
        assert float(rao.std()) < float(carlo.std()), "that is what Rao-Blackwellising is for"
        gaps += [float((one.mean() - exact[at]).abs() / (one.std() / DRAWS**0.5)) for one in (carlo, rao)]
    assert max(gaps) < 3.5
    assert float(exact_kl(p, p, prompts).abs().max()) < 1e-12
    record_claim(
        f"enumeration against the chain rule within {worst:.0e}, in float32 within {single:.0e}; both estimators "
        f"within {max(gaps):.1f} standard errors of it over {DRAWS} draws, the Rao-Blackwellised one never negative"
    )


@pytest.mark.claim("hack-1")
def test_golden_is_proxy_where_the_teacher_is_the_oracle_and_nothing_where_the_student_is(record_claim, student):
    oracle, prompts = tiny(0), drawn(50)
    golden, proxy = (held_out_states(oracle, prompts, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    found = HeldOut(proxy, golden)
    assert torch.equal(found.proxy.distances(student), golden.distances(student))
    assert float(golden.distances(student).min()) > 0
    own = float(golden.distances(oracle).abs().max())
    assert own < 1e-6
    record_claim(f"golden equals proxy to the bit with the oracle as teacher; {own:.0e} with the teacher as student")


def test_too_much_to_enumerate_is_refused():
    with pytest.raises(ValueError, match="too many to enumerate"):
        exact_kl(tiny(0), tiny(1), drawn(5000))


def test_distances_do_not_depend_on_how_rows_are_batched(student, monkeypatch):
    oracle, prompts = tiny(0), drawn(50)

    def found():
        return held_out_states(oracle, prompts, generator=torch.Generator().manual_seed(3)).distances(student)

    whole = found()
    monkeypatch.setattr("preflow.distil.states.MAX_CELLS", 7 * TINY.length * TINY.vocabulary)
    assert torch.allclose(found(), whole, atol=1e-6)
