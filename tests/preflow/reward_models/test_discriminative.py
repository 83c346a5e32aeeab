"""A head on a language model learns which of two answers is right, and says the same of a response whenever asked."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from preflow.lm import reward_head
from preflow.reward_models import discriminative
from preflow.reward_models.discriminative import HeadScorer, fit_discriminative
from preflow.store import ArrayStore
from tests.preflow.policies.conftest import RECIPE, of, taught, treated

LONG = replace(RECIPE, epochs=6.0)


@cache
def fitted(seed=0):
    return fit_discriminative(taught(), of(treated(), "train"), LONG, seed=seed)


def sides(rows):
    """All chosen responses, then all rejected ones, each beside the other."""
    return pl.concat(
        [
            rows.select("prompt", response="chosen", reference="rejected"),
            rows.select("prompt", response="rejected", reference="chosen"),
        ]
    )


def scorer(tmp_path, model=None):
    return HeadScorer(model or fitted(), LONG, ArrayStore(tmp_path / "rewards"))


def test_held_out_pairs_are_told_apart(rows, tmp_path):
    test = of(rows, "test")
    chosen, rejected = np.split(scorer(tmp_path).rewards(sides(test)), 2)
    assert len(chosen) == 20
    assert (chosen > rejected).mean() == 1.0


def test_an_untrained_head_does_not(rows, tmp_path):
    model = fit_discriminative(taught(), of(rows, "train"), replace(LONG, learning_rate=1e-9), seed=0)
    chosen, rejected = np.split(scorer(tmp_path, model).rewards(sides(of(rows, "test"))), 2)
    assert (
        np.abs(chosen - rejected).mean()
        < 0.1 * np.abs(np.subtract(*np.split(scorer(tmp_path).rewards(sides(of(rows, "test"))), 2))).mean()
    )


def test_a_turned_label_turns_the_reward(rows, tmp_path):
    """A share of 0 for chosen says that rejected was preferred by all."""
    other = of(rows, "train").with_columns(share=0.0)
    model = fit_discriminative(taught(), other, LONG, seed=0)
    chosen, rejected = np.split(scorer(tmp_path, model).rewards(sides(of(rows, "test"))), 2)
    assert (chosen < rejected).mean() == 1.0


def test_what_cannot_be_read_has_no_reward_and_the_rest_keeps_its_own(rows, tmp_path):
    known = sides(of(rows, "test"))[:3]
    user = [{"role": "user", "content": "copy : a"}]
    said = {"prompt": [user, user * 20], "response": ["zebra", "a"], "reference": ["a", "b"]}
    odd = pl.DataFrame(said, schema=known.schema)
    found = scorer(tmp_path).rewards(pl.concat([odd[:1], known, odd[1:]]))
    assert np.isnan(found[[0, 4]]).all()
    assert found[1:4] == pytest.approx(scorer(tmp_path / "other").rewards(known))


def test_nothing_is_computed_twice_and_the_batch_does_not_matter(rows, tmp_path, monkeypatch):
    asked = sides(of(rows, "test"))
    first = scorer(tmp_path).rewards(asked)
    calls = []
    monkeypatch.setattr(
        discriminative,
        "response_rewards",
        lambda *args, **how: calls.append(1) or reward_head.response_rewards(*args, **how),
    )
    assert (scorer(tmp_path).rewards(asked.reverse())[::-1] == first).all()
    assert not calls
    small = replace(scorer(tmp_path / "small"), recipe=replace(LONG, max_batch_tokens=64))
    assert small.rewards(asked) == pytest.approx(first, abs=1e-5)
    assert len(calls) > 1


def test_rows_over_the_limit_are_refused(rows):
    with pytest.raises(ValueError, match=r"rows cannot be encoded.*prompt_over_limit"):
        fit_discriminative(taught(), of(rows, "train"), replace(LONG, max_prompt_tokens=3), seed=0)


def test_same_seed_same_bytes(rows, tmp_path):
    again = fit_discriminative(taught(), of(rows, "train"), LONG, seed=0)
    fitted().save_pretrained(tmp_path / "first")
    again.save_pretrained(tmp_path / "again")
    first, second = (sorted(folder.iterdir()) for folder in (tmp_path / "first", tmp_path / "again"))
    assert [a.read_bytes() for a in first] == [b.read_bytes() for b in second]
