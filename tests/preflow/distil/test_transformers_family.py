"""Oracle, data, teacher and student of transformers: from names and files to what a study runs on."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from preflow.distil.prompt_sources import read_prompts, world_prompts
from preflow.distil.regimes import Recipe, Regime
from preflow.distil.runs import Study
from preflow.distil.seeded import load_seeded
from preflow.distil.small_language import Sizes
from preflow.distil.transformer import Running, UserTurns
from preflow.distil.transformers_family import ModelTuning, Transformers
from preflow.policies.policy import Policy
from preflow.world.policy import new_policy
from preflow.world.tasks import is_task
from preflow.world.tokenizer import world_tokenizer

RUNNING = Running(max_prompt_tokens=64, max_response_tokens=8, sampling_batch=128, micro_batch_size=None, bf16=False)
TUNING = ModelTuning(model="world:tiny", epochs=1, batch_size=16, lr=3e-3)
SEEDS = (3, 4)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a policy, random but peaked."""
    folder, tokenizer = tmp_path_factory.mktemp("oracle"), world_tokenizer()
    model = new_policy("tiny", tokenizer, seed=0)
    with torch.no_grad():
        model.model.norm.weight.mul_(5)
    Policy(model, tokenizer).save_pretrained(folder)
    return folder


def family(oracle, **changes):
    given = Transformers(
        oracle_model=None if oracle is None else str(oracle), oracle_seed=0, teacher_tuning=TUNING,
        student_tuning=replace(TUNING, epochs=0), prompts_file=None,
        sizes=Sizes(oracle=24, distillation=10, validation=12), running=RUNNING, cache=Path("unused"),
    )  # fmt: skip
    return replace(given, **changes)


@pytest.fixture(scope="module")
def made(saved):
    given = family(saved)
    oracle = given.oracle(SEEDS)
    return given, oracle, given.data(oracle, SEEDS)


def lines(folder, rows):
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_one_oracle_answers_the_distinct_prompts_of_every_seed(made):
    given, oracle, data = made
    assert oracle[3] is oracle[4]
    assert data.group_by("seed").agg(pl.col("prompt").n_unique())["prompt"].to_list() == [46, 46]
    assert data["response"].null_count() == 0
    assert all(map(is_task, data["prompt"]))
    first, second = (set(data.filter(seed=seed)["prompt"]) for seed in SEEDS)
    assert len(first & second) < 23
    assert given.data(oracle, SEEDS).equals(data)
    assert given.prompts(data, seed=3, split="validation") == UserTurns(
        tuple(data.filter(seed=3, split="validation").sort("row")["prompt"])
    )


def test_a_teacher_learns_what_the_oracle_says_and_each_seed_has_its_own(made):
    given, _, data = made
    taught = replace(given, teacher_tuning=replace(TUNING, epochs=15)).teacher(data.filter(seed=3))
    raw = replace(given, teacher_tuning=replace(TUNING, epochs=0)).teacher(data)
    assert raw[3] is raw[4]
    prompts = given.prompts(data, seed=3, split="oracle")
    said = data.filter(seed=3, split="oracle").sort("row")["response"].to_list()
    responses = raw[3].tokens(prompts, said)
    logp = [
        float(model.logprobs(prompts, responses).gather(-1, responses.clamp(min=0)[..., None])[responses >= 0].mean())
        for model in (raw[3], taught[3])
    ]
    assert logp[1] > logp[0] + 1
    assert not any(parameter.requires_grad for parameter in taught[3].parameters())


def test_a_study_runs_with_and_without_an_oracle(made, saved):
    given, oracle, data = made
    regime = Regime(name="r", prompts=10, generations=1, updates=3, online=False, student_share=0.0)
    alone = replace(given, oracle_model=None, teacher_tuning=replace(TUNING, model=str(saved), epochs=0))
    cases = [(given, oracle, data), (alone, alone.oracle(SEEDS), alone.data(alone.oracle(SEEDS), SEEDS))]
    golden = []
    for one, of, rows in cases:
        study = Study(
            family=one, data=rows, oracle=of, teacher=one.teacher(rows), student=one.student(rows),
            recipe=Recipe(batch_size=8, lr=1e-3, checkpoints=3, top_k=4),
        )  # fmt: skip
        golden.append(study.run(regime, seed=3).curve["golden"].null_count())
        assert study.storage_error(top_k=4)["kl"] > 0
    assert golden == [0, 4]
    assert cases[1][2]["response"].null_count() == cases[1][2].height == 44, "no oracle, so no split for it"


def test_models_of_a_family_come_back_from_disk(made, tmp_path):
    given, oracle, data = made
    oracle.save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-3", "seeds.json"]
    loaded = load_seeded(tmp_path, given.load)
    prompts = given.prompts(data, seed=3, split="validation")
    responses = oracle[3].sample(prompts, torch.Generator().manual_seed(0))
    assert torch.equal(loaded[4].logprobs(prompts, responses), oracle[3].logprobs(prompts, responses))


def test_an_oracle_is_needed_to_learn_from():
    with pytest.raises(ValueError, match="teacher and student have 1 and 0 epochs; give 0, or name an oracle"):
        family(None)


def test_the_prompts_of_a_file_are_read_and_bad_lines_named(tmp_path):
    path = lines(
        tmp_path, [{"prompt": "What is tea?"}, "{", {"text": "x"}, "", {"prompt": " "}, {"prompt": "Why?"}] * 2
    )
    found = read_prompts(path)
    assert found.texts == ("What is tea?", "Why?")
    assert found.duplicates == 2
    assert dict(list(found.refused.items())[:3]) == {2: "not_json", 3: "no_prompt", 5: "empty_prompt"}
    assert len(found.refused) == 6
    rng = np.random.default_rng
    assert sorted(found.drawn(2, rng(0))) == ["What is tea?", "Why?"]
    with pytest.raises(ValueError, match="need 3 prompts and the file has 2, without 2 duplicates and 6 refused"):
        found.drawn(3, rng(0))
    with pytest.raises(FileNotFoundError, match=r"absent\.jsonl is not there"):
        read_prompts(tmp_path / "absent.jsonl")


def test_too_few_prompts_are_refused_before_anything_is_sampled(tmp_path, saved):
    class Silent:
        def __len__(self):
            return 1

        def __getitem__(self, seed):
            raise AssertionError("the oracle was asked")

    path = lines(tmp_path, [{"prompt": f"copy : a {word}"} for word in "abcdef"])
    with pytest.raises(ValueError, match="need 46 prompts and the file has 6"):
        family(saved, prompts_file=path).data(Silent(), SEEDS)


def test_the_worlds_prompts_are_in_random_order():
    drawn = world_prompts(60, np.random.default_rng(0))
    assert drawn != world_prompts(60, np.random.default_rng(1))
    families = [prompt.split()[0] for prompt in drawn]
    assert families[:6] != ["copy", "reverse", "sort", "add", "keep", "write"]
    assert len(set(families)) == 6
