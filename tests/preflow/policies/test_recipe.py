from dataclasses import replace

import pytest
import torch

from preflow.objectives import PairLogprobs, dpo, ipo, robust_dpo, simpo
from tests.preflow.policies.conftest import RECIPE

ONE = PairLogprobs(
    chosen=torch.tensor([-2.0]),
    chosen_tokens=torch.tensor([2]),
    rejected=torch.tensor([-3.0]),
    rejected_tokens=torch.tensor([1]),
    chosen_reference=torch.tensor([-2.5]),
    rejected_reference=torch.tensor([-2.0]),
)


def test_the_objective_is_the_named_loss_with_its_settings():
    by_recipe = {
        "dpo": (replace(RECIPE, beta=0.3, label_smoothing=0.1), dpo(ONE, beta=0.3, label_smoothing=0.1)),
        "robust_dpo": (
            replace(RECIPE, loss="robust_dpo", beta=0.3, label_smoothing=0.1),
            robust_dpo(ONE, beta=0.3, label_smoothing=0.1),
        ),
        "ipo": (replace(RECIPE, loss="ipo", beta=0.3), ipo(ONE, beta=0.3)),
        "simpo": (
            replace(RECIPE, loss="simpo", beta=2.0, target_margin=0.5),
            simpo(ONE, beta=2.0, target_margin=0.5),
        ),
    }
    values = {name: (recipe.objective(ONE).item(), loss.item()) for name, (recipe, loss) in by_recipe.items()}
    assert all(ours == theirs for ours, theirs in values.values())
    assert len({ours for ours, _ in values.values()}) == 4


@pytest.mark.parametrize("loss", ["ipo", "simpo"])
def test_smoothing_that_would_have_no_effect_is_refused(loss):
    assert replace(RECIPE, loss=loss).label_smoothing == 0
    with pytest.raises(ValueError, match=f"{loss} takes no label smoothing; set it to 0, or the loss to dpo or robust"):
        replace(RECIPE, loss=loss, label_smoothing=0.1)
