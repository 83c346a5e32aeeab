from assets.policy import WORLD_SIZES
from preflow.world.policy import SIZES


def test_the_sizes_that_params_take_are_those_of_the_world():
    assert list(WORLD_SIZES) == list(SIZES)
