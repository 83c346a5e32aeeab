import pytest
import torch

from preflow.distil.diversity import diversity
from preflow.distil.language import PAD


def test_diversity_by_hand():
    rows = torch.tensor([[1, 2, 3], [1, 2, 4], [5, 6, 7], [5, 6, 7]])
    found = diversity(rows, generations=2, orders=(1, 2))
    assert found["distinct_responses"] == 0.75
    assert found["distinct_1"] == 7 / 12
    assert found["distinct_2"] == 5 / 8  # 12 23 24 56 67
    assert found["overlap_1"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["overlap_2"] == pytest.approx((1 / 2 + 1) / 2)


def test_one_response_a_prompt_overlaps_with_nothing_and_padding_is_no_token():
    found = diversity(torch.tensor([[1, 1, PAD], [1, 2, PAD]]), generations=1, orders=(1, 2))
    assert found["overlap_1"] == found["overlap_2"] == 0
    assert found["distinct_1"] == 2 / 4
    assert found["distinct_2"] == 1


def test_part_of_a_prompts_responses_is_refused():
    with pytest.raises(ValueError, match="3 responses are no multiple of 2"):
        diversity(torch.zeros(3, 2), generations=2, orders=(1,))
