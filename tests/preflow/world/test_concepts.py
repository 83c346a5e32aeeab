import pytest
import torch

from preflow.world.concepts import class_world, flipped, item_world


def both(seed):
    return (
        class_world((200, 50, 100), classes=8, concepts=6, inputs=10, scale=1.0, seed=seed),
        item_world((200, 50, 100), code=3, concepts=6, inputs=10, hidden=16, seed=seed),
    )


def test_the_same_seed_gives_the_same_world():
    for first, second, other in zip(both(0), both(0), both(1), strict=True):
        assert torch.equal(first.test.inputs, second.test.inputs)
        assert torch.equal(first.test.concepts, second.test.concepts)
        assert not torch.equal(first.test.inputs, other.test.inputs)
        assert (len(first.train), len(first.validation), len(first.test)) == (200, 50, 100)


def test_a_class_fixes_the_concepts_of_its_items_in_the_class_world():
    world, _ = both(0)
    vectors = {}
    for split in (world.train, world.test):
        for number, concepts in zip(split.classes.tolist(), split.concepts.tolist(), strict=True):
            assert vectors.setdefault(number, concepts) == concepts
    assert len(vectors) == 8
    assert len({tuple(vector) for vector in vectors.values()}) == 8


def test_the_first_concepts_are_the_class_and_the_others_vary_within_it_in_the_item_world():
    _, world = both(0)
    code = world.test.concepts[:, :3] @ torch.tensor([1.0, 2.0, 4.0])
    assert torch.equal(code.long(), world.test.classes)
    assert world.classes == 8
    assert 0.3 < world.train.concepts.mean() < 0.7
    of_one = world.train.concepts[world.train.classes == world.train.classes[0], 3:]
    assert (of_one.std(0) > 0).all()


def test_noise_flips_the_rate_of_cells_in_train_and_validation_alone():
    world, _ = both(0)
    noisy = world.noisy(rate=0.3, seed=5)
    wrong = noisy.train.concepts != noisy.true_train
    assert wrong.float().mean() == pytest.approx(0.3, abs=4 * (0.21 / 1200) ** 0.5)
    assert torch.equal(noisy.true_train, world.train.concepts)
    assert torch.equal(noisy.test.concepts, world.test.concepts)
    assert not torch.equal(noisy.validation.concepts, world.validation.concepts)
    assert torch.equal(noisy.train.concepts, world.noisy(rate=0.3, seed=5).train.concepts)


def test_rates_of_none_and_all():
    concepts = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    assert torch.equal(flipped(concepts, rate=0.0, seed=0), concepts)
    assert torch.equal(flipped(concepts, rate=1.0, seed=0), 1 - concepts)


def test_too_few_concepts_for_the_classes_are_refused():
    with pytest.raises(ValueError, match="3 concepts tell at most 8 classes apart, not 9"):
        class_world((5, 5, 5), classes=9, concepts=3, inputs=4, scale=1.0, seed=0)
