"""What a reward pays for: planted rewards on real text and on made text."""

import numpy as np
import polars as pl
import pytest

from preflow.ingest.intake import ingest
from preflow.reward_audit.attributes import exclaimed, hedged, longer_than, vowel_first
from preflow.reward_audit.audit import audited
from preflow.reward_audit.rewrites import by_program, responses_of, rewrites
from preflow.reward_audit.schemas import RewardedAttributes

PER_DOUBLING, NOISE, SEEDS = 0.5, 0.3, range(40)


class PaysForLength:
    """So much per doubling of the characters, and noise that is its own for each text."""

    def __init__(self, seed):
        self.seed = seed

    def rewards(self, rows):
        noise = [np.random.default_rng([self.seed, *text.encode()]).normal() for text in rows["response"]]
        return PER_DOUBLING * np.log2(rows["response"].str.len_chars().to_numpy()) + NOISE * np.array(noise)

    def in_both_orders(self, rows):
        return None


class ReadsNothing:
    def rewards(self, rows):
        return np.full(len(rows), np.nan)

    def in_both_orders(self, rows):
        return None


@pytest.fixture(scope="module")
def real(shared_data, tmp_path_factory):
    """150 arguments that people wrote, rewritten for length and for a placebo."""
    scratch = tmp_path_factory.mktemp("scratch")
    limits = {"max_field_chars": 100_000, "min_score_margin": 0.0}
    read = ingest(shared_data / "ukpconvarg1", formats={}, hub=[], scratch=scratch / "in", **limits)
    responses = responses_of(read.comparisons.collect(), most=150, seed=0)
    kinds = (longer_than(responses["original"].str.len_chars().median()), vowel_first())
    return pl.concat(rewrites(responses, kind, by_program(kind)) for kind in kinds)


def test_a_planted_length_bias_is_found_with_its_size_and_a_placebo_is_not(real):
    table = real
    found = audited(table, {f"seed_{'x' * seed}": PaysForLength(seed) for seed in SEEDS})
    RewardedAttributes.validate(found)
    assert found["identified"].all()
    length, placebo = (found.filter(pl.col("attribute") == name) for name in ("length", "vowel_first"))
    assert length["n1"][0] + length["n0"][0] > 120
    covered = ((length["per_doubling_low"] <= PER_DOUBLING) & (length["per_doubling_high"] >= PER_DOUBLING)).mean()
    assert covered >= 0.85, "a binomial of 40 at .95 is below that once in sixty"
    assert length["per_doubling"].mean() == pytest.approx(PER_DOUBLING, abs=0.02)
    assert (length["ate_low"] > 0).all()
    silent = ((placebo["ate_low"] < 0) & (placebo["ate_high"] > 0)).mean()
    assert silent >= 0.85
    assert placebo["per_doubling"].null_count() == len(placebo)


def test_a_reward_that_reads_nothing_is_not_identified(real):
    table = real
    found = audited(table, {"mute": ReadsNothing()})
    RewardedAttributes.validate(found)
    assert not found["identified"].any()
    assert found["ate"].null_count() == len(found) == 2
    assert (found["not_scored"] == found["not_scored"].max()).all()
    assert found["not_scored"][0] > 120
    assert "it can read none of" in found["reason"][0]


def prompt():
    return [{"role": "user", "content": "Why?"}]


def test_counts_and_an_effect_by_hand():
    """Four texts: a reward of 1 for each exclamation mark."""

    class Marks:
        def rewards(self, rows):
            return rows["response"].str.count_matches("!").to_numpy().astype(float)

        def in_both_orders(self, rows):
            return None

    texts = ["One.", "Two! Three!", "Four.", "Five! Six. Seven."]
    rows = [
        {"prompt_group": "0" * 32, "prompt": prompt(), "response_a": texts[i], "response_b": texts[i + 1]}
        for i in (0, 2)
    ]
    kind = exclaimed()
    table = rewrites(responses_of(pl.DataFrame(rows), most=9, seed=0), kind, by_program(kind))
    row = audited(table, {"marks": Marks()}).row(0, named=True)
    assert (row["n1"], row["n0"], row["not_rewritten"], row["unclassified"]) == (2, 2, 0, 0)
    assert (row["att"], row["atu"], row["ate"]) == (2.5, 1.0, 1.75)
    assert row["naive"] == 1.5
    assert (row["asymmetry_p"], row["asymmetric"], row["band"]) == (1.0, [], 0.0)


def test_a_rewriter_that_adds_words_is_flagged_with_a_band():
    """Hedges make a text longer, so a reward of length seems to pay for hedging."""
    texts = [
        f"{name} is {kind}."
        for name in ("Tea", "Ice", "Rain", "Snow", "Coal", "Sand")
        for kind in ("hot", "cold", "old")
    ]
    texts = [text if i % 2 else f"I think that {text[0].lower()}{text[1:]}" for i, text in enumerate(texts)]
    rows = [
        {"prompt_group": "0" * 32, "prompt": prompt(), "response_a": texts[i], "response_b": texts[i + 1]}
        for i in range(0, len(texts), 2)
    ]
    kind = hedged()
    table = rewrites(responses_of(pl.DataFrame(rows), most=99, seed=0), kind, by_program(kind))
    row = audited(table, {"length": PaysForLength(0)}).row(0, named=True)
    assert "log_characters" in row["asymmetric"]
    assert row["band"] > 0
