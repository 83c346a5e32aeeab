"""A judge is saved with its wording and comes back the same; what is no judge is refused."""

import json

import pytest

from preflow.generative_reward.model import GenerativeRewardModel, load_generative_reward
from preflow.generative_reward.scoring import verdict_probabilities
from preflow.generative_reward.training import train_verdicts
from preflow.lm.reference import weights_key
from preflow.world.keyed import JUDGE_OF_KEYS
from tests.preflow.generative_reward.conftest import LIMITS, QUICK, SMOOTHING, labels, new_judge


def test_a_saved_judge_is_the_same_when_it_is_loaded(judge, pairs, tmp_path):
    judge.save_pretrained(tmp_path)
    loaded = load_generative_reward(tmp_path)
    assert loaded.judge == judge.judge == JUDGE_OF_KEYS
    assert weights_key(loaded.model) == weights_key(judge.model)
    assert (tmp_path / "model.safetensors").is_file()
    found = [verdict_probabilities(each, pairs, **LIMITS).tolist() for each in (loaded, judge)]
    assert found[0] == found[1]


def test_a_folder_without_a_judge_is_refused(judge, tmp_path):
    with pytest.raises(ValueError, match="names no preflow_judge"):
        load_generative_reward(tmp_path)
    new_judge(0).save_pretrained(tmp_path / "policy")
    with pytest.raises(ValueError, match="names no preflow_judge: the model there was not trained to judge"):
        load_generative_reward(tmp_path / "policy")
    judge.save_pretrained(tmp_path / "judge")
    (tmp_path / "judge" / "model.safetensors").rename(tmp_path / "judge" / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"no \*\.safetensors"):
        load_generative_reward(tmp_path / "judge")


def test_a_wording_whose_verdicts_the_tokenizer_does_not_know_is_refused(judge, tmp_path):
    judge.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["preflow_judge"]["verdicts"] = ["A", "B"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="'A' is the unknown token"):
        load_generative_reward(tmp_path)
    assert GenerativeRewardModel(judge.model, judge.tokenizer, JUDGE_OF_KEYS).judge.verdicts == ("a", "b")


def test_same_seed_same_bytes(tmp_path):
    for name in ("first", "again"):
        fitted = train_verdicts(new_judge(0), JUDGE_OF_KEYS, labels(0, 128), QUICK, **SMOOTHING, seed=0)
        fitted.save_pretrained(tmp_path / name)
    first, again = (sorted((tmp_path / name).iterdir()) for name in ("first", "again"))
    assert len(first) > 3
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
