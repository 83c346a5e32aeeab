"""A transformer as a language model of the distillation: its log-probabilities, samples and training."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare
from transformers import LlamaConfig, LlamaForCausalLM

from preflow.distil.divergences import over_tokens, token_logprob
from preflow.distil.language import PAD, repeated, require_same_vocabulary
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.states import held_out_states
from preflow.distil.training import HeldOut, distil
from preflow.distil.transformer import Running, Transformer, UserTurns, load_transformer
from preflow.policies.policy import Policy
from preflow.world.policy import new_policy
from preflow.world.tokenizer import world_tokenizer
from tests.preflow.lm.conftest import make_tokenizer

RUNNING = Running(max_prompt_tokens=40, max_response_tokens=6, sampling_batch=128, micro_batch_size=None, bf16=False)


def turns(letters):
    """Four prompts of different lengths for each letter."""
    return UserTurns(tuple(f"copy : {a} {' '.join(b)}" for a in letters for b in ("a", "bc", "def", "ghijk")))


TURNS = turns("abcd")


def tiny(seed, size="tiny", running=RUNNING, scale=1.0):
    """A new policy of the world, its logits made peaked where asked."""
    tokenizer = world_tokenizer()
    model = new_policy(size, tokenizer, seed=seed)
    with torch.no_grad():
        model.model.norm.weight.mul_(scale)
    return Transformer(Policy(model, tokenizer), running, name=f"{size}-{seed}")


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def test_logprobs_are_those_of_a_plain_forward_pass_of_each_row_alone():
    model = tiny(0, scale=4.0)
    responses = model.sample(TURNS, drawn(0))
    lengths = (responses != PAD).sum(1)
    found = model.logprobs(TURNS, responses).detach()
    assert found.shape == (len(TURNS), responses.shape[1], model.vocabulary_size)
    for row, messages in enumerate(TURNS.messages):
        before = model.tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)["input_ids"]
        said = responses[row, : lengths[row]].tolist()
        with torch.no_grad():
            logits = model.model(torch.tensor([before + said])).logits[0]
        by_hand = logits[len(before) - 1 : -1].log_softmax(-1)
        torch.testing.assert_close(found[row, : lengths[row]], by_hand, atol=1e-5, rtol=1e-5)


def test_the_end_of_a_turn_is_a_token_of_the_response_unless_it_was_cut():
    model = tiny(0, scale=4.0)
    responses = model.sample(repeated(TURNS, 20), drawn(0))
    end, lengths = model.tokenizer.eos_token_id, (responses != PAD).sum(1)
    last = responses.gather(1, lengths[:, None] - 1)[:, 0]
    short = lengths < RUNNING.max_response_tokens
    assert 0 < short.sum() < len(short)
    assert (last[short] == end).all()
    assert ((responses == end).sum(1) <= 1).all()


def three_tokens():
    """A model of the world's tokenizer that can say three tokens only: two words and the end."""
    model, tokenizer = tiny(3, scale=3.0), world_tokenizer()
    allowed = [*tokenizer.convert_tokens_to_ids(["a", "b"]), tokenizer.eos_token_id]
    bias = torch.full((len(tokenizer),), -1e4)
    bias[allowed] = 0.0
    model.model.lm_head.bias = torch.nn.Parameter(bias)
    return model


def test_whole_responses_are_as_frequent_as_their_logprobs_say():
    model, n = three_tokens(), 3000
    model.running = replace(RUNNING, max_response_tokens=2, sampling_batch=1000)
    turn = UserTurns(("copy : a b",))
    counts = Counter(map(tuple, model.sample(repeated(turn, n), drawn(1)).tolist()))
    assert len(counts) > 5
    responses = torch.tensor(sorted(counts))
    logp = token_logprob(model.logprobs(repeated(turn, len(responses)), responses), responses)
    expected = over_tokens(logp, responses).detach().double().exp()
    assert float(expected.sum()) == pytest.approx(1, abs=1e-4)
    observed = [counts[key] for key in sorted(counts)]
    assert chisquare(observed, n * (expected / expected.sum()).numpy()).pvalue > 0.001


def test_samples_depend_on_the_generator_and_not_on_the_batches():
    model = tiny(0, scale=4.0)
    once = model.sample(TURNS, drawn(0))
    state = torch.get_rng_state()
    torch.manual_seed(5)
    again = model.sample(TURNS, drawn(0))
    torch.set_rng_state(state)
    assert torch.equal(once, again)
    assert not torch.equal(once, model.sample(TURNS, drawn(1)))
    model.running = replace(RUNNING, sampling_batch=3)
    assert torch.equal(once, model.sample(TURNS, drawn(0)))


def test_a_models_distance_to_itself_is_0_and_to_another_is_not():
    model = tiny(0, scale=4.0)
    states = held_out_states(model, TURNS, generator=drawn(0))
    assert float(states.distances(deepcopy(model)).abs().max()) < 1e-6
    assert float(states.distances(tiny(1)).min()) > 0


def test_a_saved_model_is_the_same_model(tmp_path):
    model = tiny(0)
    model.save_pretrained(tmp_path)
    loaded = load_transformer(tmp_path, RUNNING, name="loaded")
    responses = model.sample(TURNS, drawn(0))
    assert loaded.vocabulary == model.vocabulary
    assert torch.equal(loaded.logprobs(TURNS, responses), model.logprobs(TURNS, responses))


def test_text_and_tokens_of_a_response_are_the_same_both_ways():
    model = tiny(0, scale=4.0)
    texts = ["a b c", "", "a b c d e f g"]
    tokens = model.tokens(UserTurns(TURNS.texts[:3]), texts)
    end = model.tokenizer.eos_token_id
    assert tokens[0, 3:].tolist() == [end, PAD, PAD]
    assert tokens[1].tolist() == [end, *[PAD] * 5]
    assert end not in tokens[2].tolist(), "cut at the limit"
    assert model.texts(tokens) == ["a b c", "", "a b c d e f"]


def test_models_with_other_tokens_are_refused_by_name():
    other = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(other), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    policy = Policy(LlamaForCausalLM(config), other)
    with pytest.raises(ValueError, match=r"differ: \['tiny-0 has .* tokens .*', 'other has .*take models with the sam"):
        require_same_vocabulary(tiny(0), Transformer(policy, RUNNING, name="other"))
    require_same_vocabulary(tiny(0), tiny(1, "small"))


def test_a_prompt_over_the_limit_is_refused():
    model = tiny(0, running=replace(RUNNING, max_prompt_tokens=5))
    with pytest.raises(ValueError, match=r"tiny-0 cannot read 16 prompts.*raise max_prompt_tokens = 5"):
        model.sample(TURNS, drawn(0))


RECIPE = Recipe(batch_size=12, lr=1e-3, checkpoints=3)
REGIME = Regime(name="r", prompts=16, generations=1, updates=6, online=False, student_share=0.0)


def run(teacher, student, **changes):
    states = held_out_states(teacher, TURNS, generator=drawn(9))
    return distil(student, teacher, TURNS, replace(REGIME, **changes), RECIPE, HeldOut(states, None), seed=0)


@pytest.mark.parametrize("online", [False, True])
def test_a_run_repeats_and_comes_closer_to_its_teacher(online):
    teacher, student = tiny(0, "small", scale=4.0).requires_grad_(requires_grad=False), tiny(1)
    before = {name: value.clone() for name, value in student.state_dict().items()}
    one, again = (run(teacher, student, online=online, student_share=0.5) for _ in range(2))
    assert one.curve.equals(again.curve)
    assert one.curve["proxy"][-1] < one.curve["proxy"][0]
    assert one.epochs.height == (3 if online else 1), "a pass has two batches, and none is drawn beyond the last"
    assert all(torch.equal(value, before[name]) for name, value in student.state_dict().items())


def test_micro_batches_make_the_same_updates():
    """Of 16 rows the second batch of a pass has 4, less than there are micro-batches."""
    teacher = tiny(0, "small", scale=4.0).requires_grad_(requires_grad=False)
    whole = run(teacher, tiny(1))
    parts = run(teacher, tiny(1, running=replace(RUNNING, micro_batch_size=2)))
    assert parts.curve["proxy"].to_list() == pytest.approx(whole.curve["proxy"].to_list(), rel=1e-4)


def test_bf16_trains_under_autocast():
    teacher = tiny(0, "small", scale=4.0).requires_grad_(requires_grad=False)
    exact, rounded = run(teacher, tiny(1)), run(teacher, tiny(1, running=replace(RUNNING, bf16=True)))
    assert rounded.curve["proxy"][-1] != exact.curve["proxy"][-1]
    assert rounded.curve["proxy"][-1] == pytest.approx(exact.curve["proxy"][-1], rel=0.05)


def test_a_monitor_stops_a_run():
    class AtTwo:
        def update(self, step, train_proxy, validation_proxy):
            return step == 2

    teacher = tiny(0, "small", scale=4.0).requires_grad_(requires_grad=False)
    states = held_out_states(teacher, TURNS, generator=drawn(9))
    found = distil(tiny(1), teacher, TURNS, REGIME, RECIPE, HeldOut(states, None), seed=0, monitor=AtTwo())
    assert found.stopped == 2
    assert found.curve["update"].to_list() == [0, 2]
