import numpy as np
import polars as pl
import pytest

from preflow.lm.chat import encode
from preflow.lm.logprobs import response_logprobs
from preflow.policies.measured import Sampling, held_out_prompts, pair_logprobs, responses
from preflow.policies.training import train_on
from preflow.treatments.goals import with_goal
from preflow.treatments.schemas import training_rows
from tests.preflow.policies.conftest import RECIPE, TEXT, of, treated
from tests.preflow.treatments.conftest import frame, pair

SAMPLING = Sampling(samples=3, temperature=1.0, max_prompt_tokens=24, max_new_tokens=6, batch_size=7)
ASKED = {"text": TEXT, "sampling": SAMPLING, "seed": 5}


@pytest.fixture(scope="module")
def prompts(rows):
    return held_out_prompts(rows.filter(pl.col("split") != "train"), most=6)


def ask(policy, prompts, *, goals, model=None, **changes):
    return responses(model or policy.model, policy.tokenizer, prompts, goals=goals, **ASKED | changes)


def test_one_prompt_a_group_and_so_many_a_split():
    prompt = [{"role": "user", "content": "copy : a b"}]
    other = [{"role": "user", "content": "copy : c d"}]
    pairs = [pair(prompt, "a b", wrong, split="test") for wrong in "abc"]
    pairs += [pair(other, "c d", "c", split="validation")]
    found = held_out_prompts(treated(frame(pairs), min_pairs=0), most=5)
    assert sorted(found["prompt"].to_list(), key=str) == [prompt, other]
    assert sorted(found["split"].to_list()) == ["test", "validation"]


def test_at_most_so_many_prompts_whatever_the_order_of_rows(rows, prompts):
    assert dict(prompts.group_by("split").len().rows()) == {"validation": 6, "test": 6}
    shuffled = rows.filter(pl.col("split") != "train").sample(fraction=1, shuffle=True, seed=1)
    assert held_out_prompts(shuffled, most=6).equals(prompts)
    assert len(held_out_prompts(shuffled, most=100)) == 40


def test_every_prompt_is_answered_so_often_under_every_goal(policy, prompts):
    found = ask(policy, prompts, goals=[None, 3.0, 9.0])
    assert len(found) == 3 * len(prompts) * 3
    assert found.n_unique(["prompt_group", "goal", "sample"]) == len(found)
    assert sorted(set(found["goal"]), key=str) == [3.0, 9.0, None]
    asked = found.select("prompt_group", "prompt").unique("prompt_group").sort("prompt_group")
    assert asked.equals(prompts.select("prompt_group", "prompt").sort("prompt_group")), "prompts without the goal"


def test_the_goal_is_said_to_the_policy(policy, prompts, monkeypatch):
    heard = []

    def watch(model, tokenizer, messages, **settings):
        heard.append((list(messages), settings))
        return ["a"] * len(messages)

    monkeypatch.setattr("preflow.policies.measured.sample", watch)
    ask(policy, prompts[:2], goals=[None, 3.0])
    plain = [prompt for prompt in prompts[:2]["prompt"].to_list() for _ in range(3)]
    assert [messages for messages, _ in heard] == [plain, [with_goal(prompt, (3.0,), TEXT) for prompt in plain]]
    assert heard[1][0][0][0] == {"role": "system", "content": "score: 3"}
    assert heard[0][1] == {
        "max_prompt_tokens": 24,
        "max_new_tokens": 6,
        "temperature": 1.0,
        "seed": 5,
        "batch_size": 7,
    }


def test_policies_answer_under_the_same_chance(policy, study, rows, prompts):
    one, again = (ask(policy, prompts, goals=[None]) for _ in range(2))
    assert again.equals(one)
    assert ask(policy, prompts, goals=[9.0, None]).filter(pl.col("goal").is_null())["response"].equals(one["response"])
    assert not ask(policy, prompts, goals=[None], seed=6)["response"].equals(one["response"])
    by_prompt = one.group_by("prompt_group").agg(pl.col("response").n_unique())
    assert by_prompt["response"].max() > 1, "samples of a prompt differ"
    trained = train_on(study, training_rows(of(rows, "train")), seed=0).model
    other = ask(policy, prompts, goals=[None], model=trained)["response"]
    apart = ask(policy, prompts, goals=[None], model=trained, seed=6)["response"]
    assert (other == one["response"]).sum() > (apart == one["response"]).sum(), "what the same chance is good for"


def test_pair_logprobs_are_sums_over_the_response_under_both_policies(policy, study, rows):
    few = rows[:5]
    trained = train_on(study, training_rows(of(rows, "train")), seed=0).model
    found = pair_logprobs(trained, study, few)
    assert found.select("pair_id", "split", "prompt_group", "score_rejected").equals(
        few.select("pair_id", "split", "prompt_group", "score_rejected")
    )
    limits = {"max_prompt_tokens": RECIPE.max_prompt_tokens, "max_response_tokens": RECIPE.max_response_tokens}
    for side in ("chosen", "rejected"):
        encoded = list(encode(policy.tokenizer, few["prompt"].to_list(), few[side].to_list(), **limits).rows.values())
        for column, model in ((f"logp_{side}", trained), (f"ref_logp_{side}", policy.model)):
            sums = [tokens.sum() for tokens in response_logprobs(model, encoded, max_batch_tokens=200)]
            assert found[column].to_list() == pytest.approx(sums, rel=1e-4)
    assert np.abs(found["logp_chosen"] - found["ref_logp_chosen"]).max() > 0.1


def test_the_start_policy_has_not_moved_from_itself(policy, study, rows):
    found = pair_logprobs(policy.model, study, rows[:5])
    assert found["logp_chosen"].to_list() == pytest.approx(found["ref_logp_chosen"].to_list(), abs=1e-4)
    assert pair_logprobs(policy.model, study, rows.clear()).is_empty()
