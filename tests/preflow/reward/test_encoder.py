import hashlib
import shutil

import numpy as np
import pytest
import torch

from preflow import store as store_module
from preflow.reward import encoder as encoder_module
from preflow.reward.encoder import embed_texts, load_encoder
from preflow.reward.schemas import ResponseEmbeddings
from preflow.store import ArrayStore
from preflow.tokens import text_id, token_ids

NAME = "package:all-MiniLM-L6-v2"
TEXTS = [f"Answer {i}: " + "the cat sat on the mat, " * (i % 7) + "and left." for i in range(40)]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def encoder():
    return load_encoder(NAME)


def embed(encoder, texts, folder, *, batch_size=8, max_tokens=64):
    return embed_texts(texts, encoder, batch_size=batch_size, max_tokens=max_tokens, store=ArrayStore(folder))


def matrix(frame):
    return np.array(frame["embedding"].to_list(), dtype=np.float32)


def plain_embedding(encoder, text, max_tokens):
    """One text alone, no padding, no batch: the definition."""
    (ids,) = token_ids([text], encoder.folder, max_tokens)
    with torch.inference_mode():
        pooled = encoder.model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0)
    return (pooled / pooled.norm()).numpy()


def test_embeddings_are_the_unit_mean_of_token_states_whatever_the_padding_and_batch(encoder, tmp_path):
    expected = {text_id(text): plain_embedding(encoder, text, 64) for text in TEXTS}
    for batch_size in (1, 8):
        frame = embed(encoder, TEXTS, tmp_path / str(batch_size), batch_size=batch_size)
        ResponseEmbeddings.validate(frame)
        assert frame["text_id"].to_list() == sorted(expected)
        assert np.abs(matrix(frame) - np.array([expected[name] for name in sorted(expected)])).max() < 1e-5
        assert np.abs(np.linalg.norm(matrix(frame), axis=1) - 1).max() < 1e-6


def test_an_embedding_does_not_depend_on_its_company_bit_for_bit(encoder, tmp_path):
    together = embed(encoder, TEXTS, tmp_path / "a")
    few = embed(encoder, TEXTS[5:9], tmp_path / "b")
    assert len(few) == 4
    assert few.equals(together.filter(together["text_id"].is_in(few["text_id"].to_list())))


def test_duplicates_are_embedded_once_and_a_second_run_computes_nothing(encoder, tmp_path, monkeypatch):
    calls = []
    forward = encoder_module._embed_batch
    monkeypatch.setattr(encoder_module, "_embed_batch", lambda *args: calls.append(len(args[0])) or forward(*args))
    first = embed(encoder, TEXTS[:5] * 3, tmp_path)
    assert sum(calls) == len(first) == 5
    assert embed(encoder, TEXTS[:5], tmp_path).equals(first)
    assert sum(calls) == 5


def test_an_interrupted_run_resumes_to_the_bytes_of_an_undisturbed_one(encoder, tmp_path, monkeypatch):
    undisturbed = embed(encoder, TEXTS, tmp_path / "undisturbed")
    monkeypatch.setattr(store_module, "BATCHES_PER_SHARD", 1)
    forward, done = encoder_module._embed_batch, []

    def die_at_the_third(*args):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(len(args[0]))
        return forward(*args)

    monkeypatch.setattr(encoder_module, "_embed_batch", die_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        embed(encoder, TEXTS, tmp_path / "resumed")
    assert len(ArrayStore(tmp_path / "resumed").arrays) == sum(done) > 0
    monkeypatch.setattr(encoder_module, "_embed_batch", forward)
    assert embed(encoder, TEXTS, tmp_path / "resumed").equals(undisturbed)


def test_similar_texts_are_near(encoder, tmp_path):
    texts = ["A cat sits on a mat.", "A kitten is sitting on a rug.", "Interest rates rose last quarter."]
    frame = embed(encoder, texts, tmp_path)
    vector = dict(zip(frame["text_id"], matrix(frame), strict=True))
    cat, kitten, rates = (vector[text_id(text)] for text in texts)
    assert cat @ kitten > 0.4 > 0.2 > cat @ rates


def test_the_weights_digest_is_that_of_the_file(encoder, tmp_path):
    expected = hashlib.sha256((encoder.folder / "model.safetensors").read_bytes()).hexdigest()
    assert encoder.sha256 == expected
    shutil.copytree(encoder.folder, tmp_path / "copy")
    assert load_encoder(str(tmp_path / "copy")).sha256 == expected


def test_pickled_weights_are_refused(encoder, tmp_path):
    shutil.copy(encoder.folder / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    with pytest.raises(ValueError, match=r"no \*\.safetensors .*pytorch_model\.bin.*pickles are not read"):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("package:no-such", ValueError, "known are"),
        ("hub:org/name", ValueError, "names no revision"),
        ("no/such/folder", FileNotFoundError, "package:NAME, hub:ORG/NAME@REVISION or a folder"),
    ],
)
def test_unknown_names_are_refused_with_what_is_known(name, error, message):
    with pytest.raises(error, match=message):
        load_encoder(name)


def test_texts_that_cannot_be_embedded_are_refused(encoder, tmp_path):
    with pytest.raises(ValueError, match="empty text"):
        embed(encoder, ["fine", ""], tmp_path)
    with pytest.raises(ValueError, match="at most 512"):
        embed(encoder, ["fine"], tmp_path, max_tokens=513)


def test_token_ids_are_cut_on_the_right_with_special_tokens_kept(encoder):
    short, long = token_ids(["the cat", "the cat sat on the mat"], encoder.folder, 5)
    assert short == [101, 1996, 4937, 102]  # [CLS] the cat [SEP]
    assert len(long) == 5
    assert long[:3] == short[:3]
    assert long[-1] == 102
    same = token_ids(["the cat sat on", "the cat sat under"], encoder.folder, 5)
    assert same[0] == same[1]  # identical after truncation
    with pytest.raises(ValueError, match="2 special tokens"):
        token_ids(["x"], encoder.folder, 2)
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        token_ids(["x"], encoder.folder / "1_Pooling", 5)
