"""A linear scan finds the best of n in n - 1 comparisons where the judge is right."""

import numpy as np
import pytest

from preflow.generative_reward.best_of_n import best_of_n, best_responses
from preflow.generative_reward.scoring import preference_probability, verdict_probabilities
from preflow.world.keyed import CLASSES
from tests.preflow.generative_reward.conftest import LIMITS, frame, prompt


@pytest.mark.claim("gram-9")
def test_a_perfect_judge_finds_the_best(judge, record_claim):
    rng = np.random.default_rng(0)
    qualities = [rng.permutation(int(n)) for n in rng.integers(1, 20, size=200)]
    asked = []

    def oracle(challenges):
        asked.extend(challenges)
        return np.array([float(qualities[i][new] > qualities[i][old]) for i, new, old in challenges])

    best = best_of_n([len(each) for each in qualities], oracle)
    right = np.mean([chosen == each.argmax() for chosen, each in zip(best.chosen, qualities, strict=True)])
    needed = sum(len(each) - 1 for each in qualities)
    passes = read_by(judge, ["cat", "red"], [CLASSES, CLASSES[:3]])
    record_claim(
        f"{right:.0%} of 200 found in {best.comparisons} of {needed} comparisons; 9 took {passes} passes",
        right == 1 and best.comparisons == needed and passes == 18,
    )
    assert right == 1
    assert best.comparisons == len(asked) == needed
    assert passes == 18


def read_by(judge, keys, responses):
    """How many presentations the model reads for this scan."""
    read = []
    handle = judge.model.register_forward_pre_hook(
        lambda _, __, inputs: read.append(len(inputs["input_ids"])), with_kwargs=True
    )
    try:
        best = best_responses(judge, [prompt(key) for key in keys], responses, **LIMITS)
    finally:
        handle.remove()
    assert best.comparisons == sum(len(each) - 1 for each in responses)
    return sum(read)


def test_the_champion_is_who_wins_each_challenge(judge):
    def better(new, old):
        rows = frame((prompt("cat"), new, old))
        return preference_probability(verdict_probabilities(judge, rows, **LIMITS))[0] > 0.5

    champion = CLASSES[0]
    for challenger in CLASSES[1:]:
        champion = challenger if better(challenger, champion) else champion
    assert best_responses(judge, [prompt("cat")], [CLASSES], **LIMITS).chosen == [CLASSES.index(champion)]


def test_on_a_tie_the_champion_stays():
    assert best_of_n([4, 1], lambda asked: np.full(len(asked), 0.5)).chosen == [0, 0]
    assert best_of_n([], lambda asked: np.empty(0)) == ([], 0)


def test_nothing_to_choose_from_is_refused(judge):
    with pytest.raises(ValueError, match="prompt number 1 has no response"):
        best_of_n([2, 0], lambda asked: np.zeros(len(asked)))
    with pytest.raises(ValueError, match=r"1 comparisons cannot be read, the first \(0, 1, 0\)"):
        best_responses(judge, [prompt("cat")], [["zebra", "plum"]], **LIMITS)
