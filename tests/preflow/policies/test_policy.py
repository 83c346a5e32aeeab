import json

import pytest
import torch

from preflow.lm.reference import weights_key
from preflow.policies.policy import load_policy


@pytest.fixture
def folder(policy, tmp_path):
    policy.save_pretrained(tmp_path / "policy")
    return tmp_path / "policy"


def test_a_saved_policy_is_the_same_when_it_is_loaded(policy, folder):
    loaded = load_policy(folder, chat_template=None)
    assert weights_key(loaded.model) == weights_key(policy.model)
    assert loaded.model.dtype == torch.float32
    assert loaded.tokenizer.chat_template == policy.tokenizer.chat_template
    said = [{"role": "user", "content": "copy : a b"}]
    one, other = (each.tokenizer.apply_chat_template(said, tokenize=False) for each in (policy, loaded))
    assert one == other


def test_weights_keep_the_dtype_that_they_were_saved_in(policy, folder):
    loaded = load_policy(folder, chat_template=None)
    loaded.model.to(torch.bfloat16)
    loaded.save_pretrained(folder.parent / "half")
    assert load_policy(folder.parent / "half", chat_template=None).model.dtype == torch.bfloat16


def test_a_policy_without_a_chat_template_needs_one(folder):
    for place in folder.glob("chat_template*"):
        place.unlink()
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="has no chat template: name a file with one"):
        load_policy(folder, chat_template=None)
    assert load_policy(folder, chat_template="{{ messages }}").tokenizer.chat_template == "{{ messages }}"


def test_weights_in_a_pickle_are_not_read(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises((ValueError, FileNotFoundError), match="safetensors"):
        load_policy(folder, chat_template=None)
