from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from preflow.world.annotators import Annotator, appeal, cast_votes, choice_probabilities, is_listed, utility

PLAIN = Annotator("ann_test", noise=1.0, tie_below=0.5)


def some_pairs(n, seed=0):
    """Pairs of responses whose gold scores, lengths and list items are independent of one another."""
    rng = np.random.default_rng(seed)
    texts = [
        ["- " * listed + "word " * n_words for listed, n_words in rng.integers([0, 1], [2, 33], (n, 2))] for _ in "ab"
    ]
    scores = rng.uniform(0, 10, (2, n))
    columns = {f"response_{side}": text for side, text in zip("ab", texts, strict=True)}
    columns |= {f"score_{side}": score for side, score in zip("ab", scores, strict=True)}
    return pl.DataFrame(columns | {"shown_first": rng.choice(["a", "b"], n)})


def choices(votes):
    return votes["choice"].replace_strict({"a": 0, "b": 1, "tie": 2}).to_numpy()


def fitted(pairs, votes, flip_rate=0.0):
    """Maximum-likelihood noise, tie_below, longer, listed and first of an annotator, from the votes alone."""

    def loss(values):
        noise, tie_below, longer, listed, first = values
        guess = Annotator("guess", np.exp(noise), np.exp(tie_below), longer, listed, first=first, flip_rate=flip_rate)
        parts = difference @ [1, longer, listed, first]
        picked = choice_probabilities(guess, parts)[np.arange(len(pairs)), choices(votes)]
        return -np.log(picked).mean()

    basis = [PLAIN, replace(PLAIN, longer=1.0), replace(PLAIN, listed=1.0), replace(PLAIN, first=1.0)]
    gold, *tastes = (utility(one, pairs) for one in basis)
    difference = np.stack([gold, *(taste - gold for taste in tastes)], axis=1)
    found = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-4})
    assert found.success
    return np.array([*np.exp(found.x[:2]), *found.x[2:]])


@pytest.mark.parametrize(
    "truth",
    [
        Annotator("ann_noisy", noise=2.0, tie_below=0.5),
        Annotator("ann_wordy", noise=1.0, tie_below=0.3, longer=2.0),
        Annotator("ann_tidy", noise=1.0, tie_below=0.8, listed=4.0),
        Annotator("ann_hasty", noise=1.5, tie_below=0.4, first=1.5, flip_rate=0.1),
    ],
    ids=lambda truth: truth.name,
)
def test_noise_and_tastes_are_recovered_from_the_votes(truth):
    pairs = some_pairs(6000)
    found = fitted(pairs, cast_votes(truth, pairs, np.random.default_rng(1)), truth.flip_rate)
    known = [truth.noise, truth.tie_below, truth.longer, truth.listed, truth.first]
    assert found == pytest.approx(known, rel=0.12, abs=0.2)  # about three standard errors


def test_votes_occur_as_often_as_the_probabilities_say():
    annotator = Annotator("ann_test", noise=2.0, tie_below=1.0, first=1.0, flip_rate=0.2)
    pairs = some_pairs(20_000)
    expected = choice_probabilities(annotator, utility(annotator, pairs)).mean(axis=0)
    counted = np.bincount(choices(cast_votes(annotator, pairs, np.random.default_rng(2))), minlength=3) / len(pairs)
    assert counted == pytest.approx(expected, abs=0.01)


def test_probabilities_worked_by_hand():
    # utility 0: a = b = 1 / (1 + e^(1/2)) = 0.37754, the rest are ties; flips exchange equals.
    flipping = replace(PLAIN, flip_rate=0.3)
    for annotator in (PLAIN, flipping):
        assert choice_probabilities(annotator, np.zeros(1))[0] == pytest.approx([0.37754, 0.37754, 0.24492], abs=1e-5)
    # far beyond the noise only the flips remain
    assert choice_probabilities(flipping, np.array([50.0]))[0] == pytest.approx([0.7, 0.3, 0.0])


def test_appeal_worked_by_hand():
    wordy, tidy = replace(PLAIN, longer=2.0), replace(PLAIN, listed=4.0)
    assert appeal(PLAIN, "one two three", 5.0) == 5.0
    assert appeal(wordy, "one two three", 5.0) == 9.0  # log2(1 + 3 words) = 2 doublings
    assert appeal(tidy, "one two three", 5.0) == 5.0
    assert appeal(tidy, "1. one\n2. two", 5.0) == 9.0
    assert [is_listed(text) for text in ("* a", "x\n - a", '{"a": 1}', "2-3 a", "well-made")] == [1, 1, 1, 0, 0]


def test_a_careless_spell_is_at_chance_and_the_rest_is_not():
    careless = replace(PLAIN, careless=(3000, 6000))
    pairs = some_pairs(9000)
    votes = cast_votes(careless, pairs, np.random.default_rng(3))
    assert votes["careless"].to_numpy().nonzero()[0].tolist() == list(range(3000, 6000))
    better = np.where(pairs["score_a"] > pairs["score_b"], 0, 1)
    right = (choices(votes) == better).reshape(3, 3000).mean(axis=1)
    assert right[1] == pytest.approx(1 / 3, abs=0.03)
    assert min(right[0], right[2]) > 0.75


def test_no_position_effect_without_a_taste_for_it():
    pairs = some_pairs(4000)
    swapped = pairs.with_columns(
        shown_first=pl.when(pl.col("shown_first") == "a").then(pl.lit("b")).otherwise(pl.lit("a"))
    )
    assert utility(PLAIN, pairs).tolist() == utility(PLAIN, swapped).tolist()
    biased = replace(PLAIN, first=1.5)
    assert np.abs(utility(biased, pairs) - utility(biased, swapped)) == pytest.approx(np.full(4000, 3.0))


def test_strength_is_stated_for_preferences_only_and_repeats_with_the_seed():
    pairs = some_pairs(500)
    votes, again = (cast_votes(PLAIN, pairs, np.random.default_rng(4)) for _ in range(2))
    assert votes.equals(again)
    assert set(votes["choice"]) == {"a", "b", "tie"}
    assert (votes["strength"].is_null() == (votes["choice"] == "tie")).all()
    assert set(votes["strength"].drop_nulls()) == {1, 2, 3}
