from dataclasses import replace

import pytest
import torch

from preflow.concepts.cpo import CPO
from preflow.concepts.loss import Beside
from preflow.concepts.metrics import concept_auc, task_accuracy
from preflow.concepts.networks import Architecture
from preflow.concepts.recipe import MODES, Recipe, Setting
from preflow.concepts.robust import BCE, ForwardBCE
from preflow.concepts.training import selection_score, train_bottlenecks
from preflow.world.concepts import class_world

WORLD = class_world((300, 100, 300), classes=6, concepts=5, inputs=12, scale=1.5, seed=0)
PLAIN = Architecture(encoder="mlp", widths=[32], embedding=0)
RECIPE = Recipe(architecture=PLAIN, mode="joint", epochs=20, batch_size=32, lr=1e-2, checkpoints=3, intervened=0.25)
SAMPLED = CPO(beta=0.3, joint=True, draws=1)


def trained(*settings, recipe=RECIPE, train=WORLD.train, **how):
    settings = settings or (Setting(BCE(), 2.0),)
    return train_bottlenecks(train, WORLD.validation, settings, recipe, classes=WORLD.classes, seed=3, **how)


def parameters(stack):
    return [values.detach() for values in stack.stacked]


@pytest.mark.parametrize("mode", MODES)
def test_clean_concepts_and_classes_are_learned(mode):
    settings = [Setting(loss, 8.0) for loss in (BCE(), CPO(beta=1.0, joint=False, draws=0), SAMPLED)]
    found = trained(*settings, recipe=replace(RECIPE, mode=mode)).best.predict(WORLD.test)
    assert concept_auc(found.concepts, WORLD.test.concepts).min() > 0.95
    assert task_accuracy(found.classes, WORLD.test.classes).min() > 0.85


def test_embeddings_learn_and_listen_to_interventions():
    recipe = replace(RECIPE, architecture=replace(PLAIN, embedding=4))
    stack = trained(Setting(BCE(), 2.0), recipe=recipe).best
    found, told = stack.predict(WORLD.test), stack.predict(WORLD.test, WORLD.test.concepts)
    assert concept_auc(found.concepts, WORLD.test.concepts)[0] > 0.95
    accuracy = [task_accuracy(one.classes, WORLD.test.classes)[0] for one in (found, told)]
    assert accuracy[1] > accuracy[0] > 0.85
    assert torch.equal(found.concepts, told.concepts)


def test_the_same_seed_gives_the_same_bytes():
    first, second = (trained(Setting(SAMPLED, 2.0), Setting(BCE(), 1.0)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(parameters(first.last), parameters(second.last), strict=True))
    assert torch.equal(first.score, second.score)


@pytest.mark.parametrize("embedding", [0, 3])
def test_a_model_does_not_depend_on_its_stack(embedding):
    recipe = replace(RECIPE, architecture=replace(PLAIN, embedding=embedding), epochs=6)
    alone = trained(Setting(SAMPLED, 2.0), recipe=recipe).last.predict(WORLD.test)
    others = (Setting(BCE(), 1.0), Setting(SAMPLED, 2.0), Setting(CPO(beta=2.0, joint=True, draws=4), 9.0))
    among = trained(*others, recipe=recipe).last.predict(WORLD.test)
    assert torch.allclose(alone.concepts[0], among.concepts[1], atol=1e-3)
    assert not torch.allclose(among.concepts[0], among.concepts[1], atol=1e-1)


@pytest.mark.parametrize("mode", MODES)
def test_only_in_joint_mode_do_classes_teach_the_encoder(mode):
    recipe = replace(RECIPE, mode=mode, epochs=3)
    turned = replace(WORLD.train, classes=(WORLD.train.classes + 1) % WORLD.classes)
    first, second = (trained(recipe=recipe, train=data).last.predict(WORLD.test) for data in (WORLD.train, turned))
    assert torch.equal(first.concepts, second.concepts) == (mode != "joint")
    assert not torch.equal(first.classes, second.classes)


def test_an_independent_head_has_seen_given_concepts_only():
    recipe = replace(RECIPE, mode="independent", epochs=3)
    noise = torch.randn(WORLD.train.inputs.shape, generator=torch.Generator().manual_seed(0))
    blind = trained(recipe=recipe, train=replace(WORLD.train, inputs=noise)).last
    heads = [
        dict(zip(stack.names, parameters(stack), strict=True))["head.weight"]
        for stack in (blind, trained(recipe=recipe).last)
    ]
    assert torch.equal(*heads)


def test_the_best_checkpoint_is_kept_beside_the_last():
    seen = []
    found = trained(Setting(BCE(), 2.0), Setting(SAMPLED, 30.0), observe=lambda stack: seen.append(
        selection_score(stack.predict(WORLD.validation), WORLD.validation)
    ))  # fmt: skip
    assert len(seen) == RECIPE.checkpoints
    assert torch.equal(found.score, torch.stack(seen).max(0).values)
    assert torch.equal(selection_score(found.best.predict(WORLD.validation), WORLD.validation), found.score)
    assert torch.equal(selection_score(found.last.predict(WORLD.validation), WORLD.validation), seen[-1])


def test_training_goes_on_from_an_earlier_model_and_a_strong_prior_holds_it():
    first = trained().last
    prior = first.predict(WORLD.train).concepts[0]
    wrong = WORLD.train.with_concepts(1 - WORLD.train.concepts)
    gone, held = (
        trained(Setting(CPO(beta=5.0, joint=False, draws=0), 8.0), train=wrong, start=first.one(0), beside=beside).last
        for beside in (Beside(), Beside(prior=prior))
    )
    aucs = [concept_auc(stack.predict(WORLD.test).concepts, WORLD.test.concepts)[0] for stack in (first, gone, held)]
    assert aucs[0] > 0.95
    assert aucs[1] < 0.3
    assert aucs[2] > 0.8


def test_forward_correction_takes_the_rates_that_are_given():
    rates = Beside(flip_rates=torch.full((5,), 0.2))
    found = trained(Setting(ForwardBCE(), 2.0), beside=rates).last.predict(WORLD.test)
    assert concept_auc(found.concepts, WORLD.test.concepts)[0] > 0.9
    with pytest.raises(ValueError, match="estimate it first"):
        trained(Setting(ForwardBCE(), 2.0))


def test_missing_cells_are_passed_over():
    gaps = WORLD.train.concepts.clone()
    gaps[torch.rand(gaps.shape, generator=torch.Generator().manual_seed(0)) < 0.5] = torch.nan
    for mode in MODES:
        stack = trained(recipe=replace(RECIPE, mode=mode), train=WORLD.train.with_concepts(gaps)).last
        assert concept_auc(stack.predict(WORLD.test).concepts, WORLD.test.concepts)[0] > 0.9


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"mode": "both"}, "mode 'both' is unknown"),
        ({"mode": "sequential", "architecture": replace(PLAIN, embedding=2)}, "train them in mode joint"),
        ({"checkpoints": 21}, "21 checkpoints do not fit into 20 epochs"),
    ],
)
def test_recipes_that_cannot_be_trained_are_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        replace(RECIPE, **change)
