import math

import pytest
import torch

from preflow.concepts.arrays import ConceptArrays
from preflow.concepts.interventions import POLICIES, expected_change, intervention_curve, intervention_values
from preflow.concepts.networks import Architecture, build

SURE = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])


def model():
    """Concepts are predicted at .5, .6 and .9 for any input; the first alone decides, the second moves a little."""
    found = build((1,), 3, 2, Architecture(encoder="mlp", widths=[], embedding=0), seed=0)
    weights = {
        "encoder.1.0.weight": torch.zeros(3, 1),
        "encoder.1.0.bias": torch.logit(torch.tensor([0.5, 0.6, 0.9])),
        "head.weight": torch.tensor([[0.0, 0.0, 0.0], [8.0, 0.5, 0.0]]),
        "head.bias": torch.tensor([4.05, 0.0]),
    }
    found.load_state_dict(found.state_dict() | weights)
    return found


def items(concepts):
    concepts = torch.tensor(concepts)
    return ConceptArrays(["i"] * len(concepts), torch.zeros(len(concepts), 1), concepts, (concepts[:, 0] == 1).long())


def curve(policy, concepts=((1.0, 1.0, 0.0), (0.0, 0.0, 1.0)), seed=0):
    return intervention_curve(model(), items(concepts), SURE, policy=policy, seed=seed)["task_accuracy"].to_list()


def test_the_cooperative_order_takes_the_concept_that_decides():
    assert curve("cooperative") == [0.5, 1.0, 1.0, 1.0]
    assert curve("uncertainty") == [0.5, 1.0, 1.0, 1.0]


def test_random_order_repeats_with_its_seed_and_ends_where_the_others_end():
    courses = {tuple(curve("random", seed=seed)) for seed in range(8)}
    assert curve("random", seed=3) == curve("random", seed=3)
    assert len(courses) > 1
    assert {course[-1] for course in courses} == {1.0}


def test_unknown_concepts_are_never_corrected():
    assert curve("uncertainty", ((math.nan, 1.0, 0.0), (math.nan, 0.0, 1.0))) == curve(
        "cooperative", ((math.nan, 1.0, 0.0), (math.nan, 0.0, 1.0))
    )
    gaps = intervention_curve(model(), items([[math.nan] * 3]), SURE, policy="cooperative", seed=0)
    assert gaps["task_accuracy"].n_unique() == 1


def test_expected_change_by_hand():
    net = model()
    given = torch.full((1, 3), math.nan)

    def labels(given):
        return net(torch.zeros(1, 1), given)[1].softmax(-1)

    found = expected_change(labels, torch.logit(torch.tensor([[0.5, 0.6, 0.9]])), given, SURE)
    p = [1 / (1 + math.exp(4.05 - score)) for score in (4.3, 0.3, 8.3, 4.0, 4.5)]
    assert found[0].tolist() == pytest.approx(
        [(abs(p[1] - p[0]) + abs(p[2] - p[0])) / 2, 0.4 * abs(p[3] - p[0]) + 0.6 * abs(p[4] - p[0]), 0], abs=1e-6
    )


def test_values_are_percentiles_for_a_bottleneck_and_certain_for_embeddings():
    train = items([[1.0, 0.0, 1.0]] * 5)
    assert torch.allclose(intervention_values(model(), train), torch.tensor([0.5, 0.6, 0.9]).expand(2, 3))
    embedded = build((1,), 3, 2, Architecture(encoder="mlp", widths=[], embedding=2), seed=0)
    assert intervention_values(embedded, train).tolist() == SURE.tolist()


def test_unknown_policies_are_refused():
    assert len(POLICIES) == 3
    with pytest.raises(ValueError, match="policy 'greedy' is unknown"):
        curve("greedy")
