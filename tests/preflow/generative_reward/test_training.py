"""What the two stages train on, and that the same pairs serve a judge and a reward of single responses."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from preflow.generative_reward.scoring import preference_probability, verdict_probabilities
from preflow.generative_reward.training import fit_generative, pretrain_on_pairs, train_verdicts, verdict_examples
from preflow.lm.chat import encode
from preflow.lm.logprobs import response_logprobs
from preflow.lm.reference import weights_key
from preflow.lm.reward_head import REWARD, gap_loss, response_rewards, reward_model
from preflow.lm.trainer import Example
from preflow.policies.readable import encode_rows
from preflow.policies.training import train_by
from preflow.world.keyed import JUDGE_OF_KEYS, draw_keyed, shuffled_prompts
from tests.preflow.generative_reward.conftest import LIMITS, QUICK, SMOOTHING, TUNING, as_pairs, labels, new_judge

BOTH = {"max_prompt_tokens": 24, "max_response_tokens": 8}


def mean_logprob(policy, rows):
    texts = [JUDGE_OF_KEYS.both(a, b) for a, b in rows.select("response_a", "response_b").iter_rows()]
    found = encode(policy.tokenizer, rows["prompt"].to_list(), texts, **BOTH)
    return np.mean([v.sum() for v in response_logprobs(policy.model, list(found.rows.values()), max_batch_tokens=4096)])


def test_pre_training_makes_pairs_likelier_and_leaves_the_policy_alone():
    world, start = draw_keyed(0), new_judge(0)
    before, rows = weights_key(start.model), world.unlabelled(640, good=0.7, seed=0)
    trained = pretrain_on_pairs(start, JUDGE_OF_KEYS, rows, QUICK, seed=0)
    assert weights_key(start.model) == before
    held_out = world.unlabelled(200, good=0.7, seed=1)
    assert mean_logprob(trained, held_out) > mean_logprob(start, held_out) + 1


def test_pre_training_does_not_learn_which_side_stands_first():
    """All right responses are in one column, yet a trained policy writes the other first as often."""
    world = draw_keyed(0)
    rows = as_pairs(world.labelled(("cat",), 640, noise=0.0, seed=0)).with_columns(response_b=pl.lit("lime"))
    trained = pretrain_on_pairs(new_judge(0), JUDGE_OF_KEYS, rows, replace(QUICK, epochs=4.0), seed=0)
    first = [world.class_of["cat"], "lime"]
    assert len(set(first)) == 2
    found = encode(trained.tokenizer, [rows["prompt"][0]] * 2, first, **BOTH)
    said = response_logprobs(trained.model, list(found.rows.values()), max_batch_tokens=4096)
    assert np.exp([values[0] for values in said]) == pytest.approx([0.5, 0.5], abs=0.1)


def test_every_label_is_shown_in_both_orders():
    policy, rows = new_judge(0), labels(0, 4).with_columns(share=pl.Series([None, 1.0, 0.25, 0.5]))
    examples = verdict_examples(policy, JUDGE_OF_KEYS, rows, max_prompt_tokens=24)
    assert [x.share for x in examples] == [None, None, 1.0, 1.0, 0.25, 0.25, 0.5, 0.5]
    said = [(policy.tokenizer.decode(x.chosen.ids), policy.tokenizer.decode(x.rejected.ids)) for x in examples[:2]]
    key, right, wrong = rows["prompt"][0][0]["content"], rows["chosen"][0], rows["rejected"][0]
    asked = [f"<user> {key} {right} {wrong} : <end> <assistant>", f"<user> {key} {wrong} {right} : <end> <assistant>"]
    assert said == [(f"{asked[0]} a", f"{asked[0]} b"), (f"{asked[1]} b", f"{asked[1]} a")]


def test_a_share_of_none_turns_the_verdicts():
    rows = labels(0, 400, noise=0.0)
    recipe = replace(TUNING, epochs=20.0, learning_rate=2e-3)
    judge = train_verdicts(new_judge(0), JUDGE_OF_KEYS, rows.with_columns(share=0.0), recipe, **SMOOTHING, seed=0)
    found = preference_probability(verdict_probabilities(judge, as_pairs(rows), **LIMITS))
    assert (found < 0.5).mean() > 0.95


def test_a_new_task_is_another_second_stage(judge):
    """The classes of another world, from a judge that has been through both stages."""
    before = weights_key(judge.model)
    again = train_verdicts(judge.policy, judge.judge, labels(1, 64), QUICK, **SMOOTHING, seed=0)
    assert weights_key(judge.model) == before != weights_key(again.model)
    assert again.judge == judge.judge


def test_one_table_serves_a_judge_and_a_reward_of_single_responses():
    policy, rows = new_judge(0), labels(0, 256)
    how = {"pretraining": QUICK, "tuning": QUICK, **SMOOTHING, "seed": 0}
    judge = fit_generative(policy, JUDGE_OF_KEYS, unlabelled=as_pairs(rows), labelled=rows, **how)
    assert np.isfinite(verdict_probabilities(judge, as_pairs(rows), **LIMITS)).all()
    encoded = encode_rows(rows, policy.tokenizer, QUICK).rows.values()
    examples = [Example(*pair, share=share) for pair, share in zip(encoded, rows["share"], strict=True)]
    head = reward_model(policy.model, outputs=1, seed=0, about={})
    trained = train_by(QUICK, head, examples, gap_loss, order="shuffled", seed=0, forward=REWARD).model
    assert np.isfinite(response_rewards(trained, [x.chosen for x in examples], max_batch_tokens=4096)).all()


def test_what_cannot_be_read_is_refused():
    policy, rows = new_judge(0), labels(0, 6)
    odd = rows.with_columns(chosen=pl.when(pl.int_range(6) == 2).then(pl.lit("zebra")).otherwise("chosen"))
    with pytest.raises(ValueError, match=r"of 6 rows some cannot be read: {'unknown_words': 1}"):
        train_verdicts(policy, JUDGE_OF_KEYS, odd, QUICK, **SMOOTHING, seed=0)
    with pytest.raises(ValueError, match=r"of 6 rows some cannot be read: {'unknown_words': 1}"):
        pretrain_on_pairs(policy, JUDGE_OF_KEYS, as_pairs(odd), QUICK, seed=0)
    short = replace(QUICK, max_prompt_tokens=3)
    with pytest.raises(ValueError, match=r"{'prompt_over_limit': 6}; leave them out, raise the limits"):
        train_verdicts(policy, JUDGE_OF_KEYS, rows, short, **SMOOTHING, seed=0)
    with pytest.raises(ValueError, match="6 of 6 rows have one response twice"):
        train_verdicts(policy, JUDGE_OF_KEYS, rows.with_columns(chosen="rejected"), QUICK, **SMOOTHING, seed=0)


def test_the_placebo_keeps_prompts_and_pairs_and_parts_them():
    world = draw_keyed(0)
    rows = world.unlabelled(2000, good=0.7, seed=0)
    other = shuffled_prompts(rows, seed=0)
    assert other.drop("prompt").equals(rows.drop("prompt"))
    assert sorted(map(str, other["prompt"])) == sorted(map(str, rows["prompt"]))

    def good(table):
        keys = (chat[0]["content"] for chat in table["prompt"])
        return np.mean([world.class_of[key] == text for key, text in zip(keys, table["response_a"], strict=True)])

    assert good(rows) == pytest.approx(0.7, abs=0.04)
    assert good(other) == pytest.approx(1 / 8, abs=0.04)
    assert draw_keyed(0) == world != draw_keyed(1)
    assert rows.equals(draw_keyed(0).unlabelled(2000, good=0.7, seed=0))
    assert len(world.labelled_keys) == 24
    assert len(world.unseen_keys) == 32
    flipped = world.labelled(world.labelled_keys, 2000, noise=0.1, seed=0)
    right = [world.class_of[p[0]["content"]] == c for p, c in flipped.select("prompt", "chosen").iter_rows()]
    assert np.mean(right) == pytest.approx(0.9, abs=0.03)
