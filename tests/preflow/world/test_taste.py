import numpy as np
import pytest

from preflow.divergence.histograms import ballots, vote_histograms
from preflow.divergence.schemas import VoteHistograms
from preflow.world.taste import LIKES_STYLE, draw_taste, without_content

HOW = {"annotators": 20, "votes": 4, "style": 2.0, "world": 0}


def test_three_quarters_like_style_and_nobody_judges_a_pair_twice():
    drawn = draw_taste(300, **HOW, seed=0)
    assert drawn.likes_style.mean() == LIKES_STYLE
    assert all(len(set(row)) == 4 for row in drawn.annotator.tolist())
    assert np.bincount(drawn.annotator.ravel(), minlength=20).min() > 30, "everyone judges"


def test_style_divides_people_and_quality_does_not():
    share = {style: draw_taste(3000, **HOW | {"style": style}, seed=1).diverging.mean() for style in (0.0, 1.0, 2.0)}
    assert share[0.0] < 0.07
    assert 0.2 < share[2.0] < 0.4
    assert share[0.0] < share[1.0] < share[2.0]
    drawn = draw_taste(3000, **HOW, seed=1)
    gate = (drawn.a[:, -1] > 0) | (drawn.b[:, -1] > 0)
    assert drawn.diverging[~gate].mean() < 0.07 < 0.3 < drawn.diverging[gate].mean()


def test_taste_decides_who_differs():
    drawn = draw_taste(3000, **HOW, seed=2)
    styled = (drawn.a[:, -1] > 0) & (drawn.b[:, -1] <= 0) & (drawn.a[:, -2] > 1.5)
    assert styled.sum() > 20
    likes = drawn.likes_style[drawn.annotator[styled]]
    bins = drawn.bins[styled]
    assert bins[likes].mean() > 3 > 1 > bins[~likes].mean()


def test_tables_say_what_the_arrays_say():
    drawn = draw_taste(200, **HOW, seed=3)
    table = VoteHistograms.validate(drawn.histograms())
    assert table.equals(vote_histograms(ballots(drawn.votes())))
    assert drawn.counts.sum() == 800


@pytest.mark.parametrize("draw", [draw_taste, None])
def test_repeats_and_differs_by_seed(draw):
    def bins(seed):
        control = {"votes": 4, "share": 0.4, "world": 0}
        return (draw_taste(100, **HOW, seed=seed) if draw else without_content(100, **control, seed=seed)).bins

    assert np.array_equal(bins(4), bins(4))
    assert not np.array_equal(bins(4), bins(5))


def test_in_the_control_divergence_has_nothing_to_do_with_content():
    drawn = without_content(6000, votes=4, share=0.4, world=0, seed=0)
    assert 0.25 < drawn.diverging.mean() < 0.4
    inputs = np.hstack([drawn.a, drawn.b, np.abs(drawn.a - drawn.b)])
    correlation = np.corrcoef(inputs.T, drawn.diverging)[-1, :-1]
    assert np.abs(correlation).max() < 4.5 / np.sqrt(6000)
    sides = np.sign(drawn.bins - 2)[~drawn.diverging].mean(1)
    assert np.abs(sides).mean() > 0.5, "the others agree"


def test_careless_annotators_tick_at_random():
    careful, careless = (draw_taste(2000, **HOW, careless=n, seed=6) for n in (0, 4))
    theirs = careless.annotator >= 16
    assert np.array_equal(careful.bins[~theirs], careless.bins[~theirs])
    share = np.bincount(careless.bins[theirs], minlength=5) / theirs.sum()
    assert np.abs(share - 0.2).max() < 0.04
