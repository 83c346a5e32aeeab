import itertools

import numpy as np
import pytest
import torch

from preflow.world.policy import SIZES, demonstrated_policy, new_policy, sampled_answers
from preflow.world.style import bare
from preflow.world.tasks import LEVELS, distinct_tasks, gold_reward, task_stream
from preflow.world.tokenizer import world_tokenizer
from preflow.world.writers import Habits, demonstrations

COPY = {"families": ["copy"], "levels": [1]}
TRAINING = {"steps": 100, "early_step": 20, "batch_size": 32, "learning_rate": 5e-3, "seed": 0}


@pytest.fixture(scope="module")
def taught():
    """Demonstrations of the easiest task: two letters to copy."""
    tasks = itertools.islice(task_stream(np.random.default_rng(0), **COPY), 500)
    return demonstrations(
        tasks,
        Habits(error=0.0, cut=0.0, refusal=0.0, style=0.0),
        np.random.default_rng(0),
        system_share=0.3,
        true_share=0.0,
    )


@pytest.fixture(scope="module")
def policies(taught):
    torch.set_num_threads(1)
    return demonstrated_policy("tiny", world_tokenizer(), taught, **TRAINING)


def rewards(model, tasks):
    answers = sampled_answers(model, world_tokenizer(), tasks, writer="w", temperature=0.0, seed=0)
    return np.mean([gold_reward(answer.prompt, answer.text) for answer in answers])


def weights(model):
    return torch.cat([parameter.flatten() for parameter in model.parameters()])


def test_sizes_are_those_that_are_stated():
    tokenizer = world_tokenizer()
    counts = {size: new_policy(size, tokenizer, seed=0).num_parameters() / 1e6 for size in SIZES}
    assert counts == pytest.approx({"tiny": 0.11, "small": 0.37, "medium": 1.1, "large": 3.9}, rel=0.1)


def test_the_seed_decides_the_weights_and_nothing_else_is_touched():
    tokenizer = world_tokenizer()
    torch.manual_seed(9)
    expected = torch.rand(1)
    torch.manual_seed(9)
    one, two, other = (weights(new_policy("tiny", tokenizer, seed=seed)) for seed in (1, 1, 2))
    assert torch.rand(1) == expected
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_training_teaches_and_the_early_policy_knows_less(policies):
    tasks = distinct_tasks(60, np.random.default_rng(5), exclude=frozenset(), **COPY)
    fresh = new_policy("tiny", world_tokenizer(), seed=0)
    early, late = rewards(policies.early, tasks), rewards(policies.late, tasks)
    assert rewards(fresh, tasks) < 1
    assert early + 1 < late
    assert policies.history[-1]["loss"] < np.log(12)


def test_training_repeats(policies, taught):
    again = demonstrated_policy("tiny", world_tokenizer(), taught, **TRAINING)
    assert torch.equal(weights(again.early), weights(policies.early))
    assert torch.equal(weights(again.late), weights(policies.late))
    assert again.history == policies.history


def test_sampling_repeats_and_names_its_writer(policies):
    tasks = distinct_tasks(40, np.random.default_rng(6), families=["copy", "add"], levels=LEVELS, exclude=frozenset())
    settings = {"writer": "late", "temperature": 0.7, "seed": 3}
    one, two = (sampled_answers(policies.late, world_tokenizer(), tasks, **settings) for _ in range(2))
    assert one == two
    assert [answer.prompt for answer in one] == [task.prompt for task in tasks]
    assert {answer.writer for answer in one} == {"late@0.7"}
    assert any(bare(answer.text) for answer in one)


def test_impossible_settings_are_refused(taught):
    with pytest.raises(ValueError, match="unknown size 'huge'"):
        new_policy("huge", world_tokenizer(), seed=0)
    with pytest.raises(ValueError, match="early_step"):
        demonstrated_policy("tiny", world_tokenizer(), taught, **TRAINING | {"early_step": 101})
