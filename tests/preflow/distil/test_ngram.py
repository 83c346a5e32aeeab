import pytest
import torch

from preflow.distil.language import require_same_vocabulary
from preflow.distil.ngram import Language, NGram, load_ngram
from preflow.distil.seeded import Seeded, load_seeded
from tests.preflow.distil.conftest import TINY, drawn, tiny


@torch.no_grad()
def test_a_token_depends_on_the_prompt_and_the_two_tokens_before_it():
    model, prompts = tiny(0), drawn(1)
    base = torch.tensor([[0, 1, 2, 3]])
    far, near = torch.tensor([[3, 1, 2, 3]]), torch.tensor([[0, 1, 3, 3]])
    at = [model.logprobs(prompts, one)[0, 3] for one in (base, far, near)]
    assert torch.allclose(at[0], at[1])
    assert not torch.allclose(at[0], at[2])
    assert not torch.allclose(model.logprobs(prompts + 1, base), model.logprobs(prompts, base))
    assert torch.allclose(model.logprobs(prompts, base).exp().sum(-1), torch.ones(1, 4))


@torch.no_grad()
def test_samples_have_the_models_frequencies():
    model, prompts = tiny(0), drawn(1).expand(20_000, -1)
    tokens = model.sample(prompts, torch.Generator().manual_seed(0))
    p = model.logprobs(prompts[:1], tokens[:1])[0, 0].exp()
    found = torch.bincount(tokens[:, 0], minlength=4) / 20_000
    assert torch.allclose(found, p, atol=4 * 0.5 / 20_000**0.5)
    again = model.sample(prompts, torch.Generator().manual_seed(0))
    other = model.sample(prompts, torch.Generator().manual_seed(1))
    assert torch.equal(tokens, again)
    assert not torch.equal(tokens, other)


def test_saved_and_loaded_it_says_the_same(tmp_path):
    shared = tiny(11)
    models = Seeded({3: tiny(3), 11: shared, 12: shared})
    models.save_pretrained(tmp_path)
    loaded = load_seeded(tmp_path, load_ngram)
    assert list(loaded) == [3, 11, 12]
    assert loaded[11] is loaded[12]
    assert not (tmp_path / "seed-12").exists(), "a model that seeds share is written once"
    tokens = torch.tensor([[0, 1, 2, 3]])
    for seed in loaded:
        assert torch.equal(loaded[seed].logprobs(drawn(1), tokens), models[seed].logprobs(drawn(1), tokens))
    first = (tmp_path / "seed-3" / "model.safetensors").read_bytes()
    load_ngram(tmp_path / "seed-3").save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == first


def test_without_an_oracle_the_folder_of_its_models_says_so(tmp_path):
    Seeded({}).save_pretrained(tmp_path / "oracle")
    assert len(load_seeded(tmp_path / "oracle", load_ngram)) == 0


def test_models_of_different_vocabularies_are_refused():
    other = NGram(Language(vocabulary=5, length=4, order=3, prompt_size=3), width=4, embedding=5, seed=0)
    require_same_vocabulary(tiny(0), NGram(TINY, width=6, embedding=5, seed=9))
    with pytest.raises(ValueError, match="take models with the same tokenizer"):
        require_same_vocabulary(tiny(0), other)
