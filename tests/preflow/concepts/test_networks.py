import math
from importlib.util import find_spec

import pytest
import torch

from preflow.concepts.networks import Architecture, build, load_bottleneck


def architecture(**how):
    return Architecture(**({"encoder": "mlp", "widths": [8], "embedding": 0} | how))


def nothing(n, k):
    return torch.full((n, k), math.nan)


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        ({}, (6,)),
        ({"embedding": 3}, (6,)),
        ({"encoder": "cnn"}, (3, 9, 8)),
        ({"encoder": "cnn", "embedding": 2}, (1, 8, 8)),
    ],
)
def test_a_saved_network_says_the_same(how, shape, tmp_path):
    model = build(shape, 4, 5, architecture(**how), seed=1)
    inputs = torch.rand(7, *shape, generator=torch.Generator().manual_seed(0))
    model.standardise_by(inputs)
    model.save_pretrained(tmp_path, about={"source": "made here"})
    again = load_bottleneck(tmp_path)
    first, second = model(inputs, nothing(7, 4)), again(inputs, nothing(7, 4))
    assert (first[0].shape, first[1].shape) == ((7, 4), (7, 5))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_seed_decides_and_the_global_state_does_not():
    torch.manual_seed(5)
    first = build((6,), 2, 2, architecture(embedding=2), seed=1).state_dict()
    torch.manual_seed(6)
    second, other = (build((6,), 2, 2, architecture(embedding=2), seed=seed).state_dict() for seed in (1, 2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_the_head_reads_probabilities_and_given_values_by_hand():
    model = build((1,), 2, 1, architecture(widths=[]), seed=0)
    weights = {
        "encoder.1.0.weight": [[0.0], [0.0]],
        "encoder.1.0.bias": [math.log(3), 0.0],
        "head.weight": [[8.0, 2.0]],
        "head.bias": [1.0],
    }
    model.load_state_dict(model.state_dict() | {name: torch.tensor(value) for name, value in weights.items()})
    given = torch.tensor([[math.nan, math.nan], [0.0, math.nan], [math.nan, 1.0]])
    concepts, labels = model(torch.zeros(3, 1), given)
    assert concepts[0].tolist() == pytest.approx([math.log(3), 0])
    assert labels[:, 0].tolist() == pytest.approx([8 * 0.75 + 1 + 1, 2 * 0.5 + 1, 8 * 0.75 + 2 + 1])


def test_an_embedding_given_as_present_is_its_positive_vector():
    model = build((4,), 2, 3, architecture(embedding=2), seed=0)
    inputs = torch.rand(5, 4, generator=torch.Generator().manual_seed(0))
    pairs = torch.nn.functional.leaky_relu(model.encoder(inputs)).view(5, 2, 2, 2)
    given = torch.tensor([1.0, 0.0]).expand(5, 2)
    mixed = torch.stack([pairs[:, 0, 0], pairs[:, 1, 1]], dim=1).flatten(1)
    assert torch.allclose(model(inputs, given)[1], model.head(mixed))


def test_inputs_that_never_differ_stay_as_they_are():
    model = build((2,), 1, 2, architecture(), seed=0)
    model.standardise_by(torch.tensor([[1.0, 7.0], [3.0, 7.0]]))
    assert model.encoder[0].scale.tolist() == pytest.approx([math.sqrt(2), 1])
    assert model.encoder[0].mean.tolist() == [2, 7]


@pytest.mark.parametrize(
    ("encoder", "shape", "complaint"),
    [("vit", (4,), "encoder 'vit' is unknown"), ("cnn", (64,), r"needs images .* these are \[64\]")],
)
def test_encoders_that_do_not_fit_are_refused(encoder, shape, complaint):
    with pytest.raises(ValueError, match=complaint):
        build(shape, 2, 2, architecture(encoder=encoder), seed=0)


@pytest.mark.skipif(find_spec("torchvision") is not None, reason="torchvision is installed")
def test_a_missing_torchvision_is_named_with_its_remedy():
    with pytest.raises(ModuleNotFoundError, match="pip install torchvision"):
        build((3, 64, 64), 2, 2, architecture(encoder="resnet34"), seed=0)
