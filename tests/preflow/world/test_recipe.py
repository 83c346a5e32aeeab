from dataclasses import replace

import pytest
import torch

from preflow.ingest.canonical import pair_id_of
from preflow.lm.reference import weights_key
from preflow.policies import start
from preflow.policies.policy import Policy
from preflow.policies.start import start_policy
from preflow.world.recipe import DEFAULT_WORLD, feedback_on, taught_policies
from preflow.world.tasks import FAMILIES, LEVELS
from preflow.world.tokenizer import world_tokenizer

TINY = replace(DEFAULT_WORLD, demonstrations=300, steps=20, early_step=10, batch_size=16, prompts=40)


@pytest.fixture(scope="module")
def policies():
    torch.set_num_threads(1)
    return taught_policies(TINY, seed=3)


@pytest.fixture(scope="module")
def feedback(policies):
    return feedback_on(policies, TINY, seed=3)


def test_the_seed_decides_the_world(policies, feedback, tmp_path):
    again = taught_policies(TINY, seed=3)
    assert weights_key(again.late) == weights_key(policies.late) != weights_key(policies.early)
    same = feedback_on(again, TINY, seed=3)
    assert same.rows == feedback.rows
    assert same.truth.equals(feedback.truth)
    for name, made in {"one": feedback, "two": same}.items():
        made.save_to_disk(tmp_path / name)
    one, two = ((tmp_path / name / "feedback.jsonl.gz").read_bytes() for name in ("one", "two"))
    assert one == two


def test_another_seed_is_another_world(policies, feedback):
    assert weights_key(taught_policies(TINY, seed=4).late) != weights_key(policies.late)
    other = feedback_on(policies, TINY, seed=4)
    assert {row["prompt"][0]["content"] for row in other.rows} != {row["prompt"][0]["content"] for row in feedback.rows}


def test_feedback_is_as_the_recipe_says(feedback):
    rows, truth = feedback.rows, feedback.truth
    prompts = [row["prompt"][0]["content"] for row in rows]
    assert len(set(prompts)) == TINY.prompts
    assert max(prompts.count(prompt) for prompt in set(prompts)) == TINY.pairs_per_prompt
    assert {len(row["votes"]) for row in rows} == set(TINY.votes_per_pair)
    assert truth["family"].n_unique() == len(FAMILIES)
    assert truth["level"].n_unique() == len(LEVELS)
    writers = {row[side] for row in rows for side in ("model_a", "model_b")}
    assert {"late@0.7", "late@1.0", "early@1.0"} <= writers
    assert truth["pair_id"].to_list() == [
        pair_id_of(row["prompt"], row["response_a"], row["response_b"]) for row in rows
    ]


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5])
def test_the_stated_share_of_decided_pairs_is_flipped_and_nothing_else_changes(policies, feedback, rate):
    made = feedback_on(policies, replace(TINY, flip_rate=rate), seed=3)
    decided = (made.truth["gold"] != "tie").sum()
    assert decided > 15
    assert made.truth["flipped"].sum() == round(rate * decided)
    assert not made.truth.filter(flipped=True)["gold"].is_in(["tie"]).any()
    assert made.truth.drop("flipped").equals(feedback.truth.drop("flipped"))
    turned = {"a": "b", "b": "a", "tie": "tie"}
    before = {i for i, flip in enumerate(feedback.truth["flipped"]) if flip}
    now = {i for i, flip in enumerate(made.truth["flipped"]) if flip}
    for i, (one, other) in enumerate(zip(feedback.rows, made.rows, strict=True)):
        choices = [[vote["choice"] for vote in row["votes"]] for row in (one, other)]
        expected = [turned[choice] for choice in choices[0]] if (i in before) != (i in now) else choices[0]
        assert choices[1] == expected
        assert one | {"votes": 0} == other | {"votes": 0}


def test_the_start_policy_of_a_world_is_the_late_one_and_knows_its_tokens(policies, monkeypatch, tmp_path):
    monkeypatch.setattr(start, "DEFAULT_WORLD", replace(TINY, size="unset"))
    made = start_policy("world:tiny", chat_template=None, seed=3, cache=tmp_path)
    assert weights_key(made.model) == weights_key(policies.late)
    assert len(made.tokenizer) == made.model.config.vocab_size
    with pytest.raises(ValueError, match="unknown size 'huge': known are tiny, small, medium, large"):
        start_policy("world:huge", chat_template=None, seed=3, cache=tmp_path)


def test_any_other_start_policy_is_loaded(policies, tmp_path):
    Policy(policies.late, world_tokenizer()).save_pretrained(tmp_path / "saved")
    made = start_policy(str(tmp_path / "saved"), chat_template=None, seed=9, cache=tmp_path)
    assert weights_key(made.model) == weights_key(policies.late)
    own = start_policy(str(tmp_path / "saved"), chat_template="{{ messages }}", seed=9, cache=tmp_path)
    assert own.tokenizer.chat_template == "{{ messages }}" != made.tokenizer.chat_template
    with pytest.raises((FileNotFoundError, OSError, ValueError), match="absent"):
        start_policy(str(tmp_path / "absent"), chat_template=None, seed=9, cache=tmp_path)
