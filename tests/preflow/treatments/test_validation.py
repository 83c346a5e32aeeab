import pytest

from preflow.treatments.validation import best_on_validation


def test_best_mean_and_the_first_of_equals():
    assert best_on_validation({8.0: [1, 2], 9.0: [2, 2], 10.0: [3, 0]}) == 9.0
    assert best_on_validation({1.0: [1, 2], 0.5: [2, 1]}) == 1.0
    assert best_on_validation({(4.0, 2.0): [1.0]}) == (4.0, 2.0)


@pytest.mark.parametrize("measured", [{}, {1: []}, {1: [1.0], 2: [1.0, 2.0]}])
def test_settings_must_see_the_same_prompts(measured):
    with pytest.raises(ValueError, match="the same validation prompts"):
        best_on_validation(measured)


def test_a_failed_run_is_not_a_bad_setting():
    with pytest.raises(ValueError, match="not finite"):
        best_on_validation({1: [1.0], 2: [float("nan")]})
