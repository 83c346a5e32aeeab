"""The shipped feedback set is what its card says it is."""

import gzip
import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from preflow.world.annotators import ANNOTATORS, choice_probabilities, utility
from preflow.world.tasks import gold_reward
from preflow.world.verifiable import FAMILIES, gold_score

FOLDER = Path(__file__).parents[1] / "examples" / "verifiable_instructions"
FEEDBACK = FOLDER / "feedback.jsonl.gz"
CARD = (FOLDER / "README.md").read_text()


def card_figure(label):
    """The figure of a row of the card's tables: `| label | figure | ...`."""
    found = re.search(rf"^\| `?{re.escape(label)}`? \| ([\d,.]+) \|", CARD, re.MULTILINE)
    assert found, f"the card has no row {label!r}"
    return float(found[1].replace(",", ""))


def parsed(line):
    """The row, or None where the line is not JSON or says a key twice."""
    try:
        pairs = json.loads(line, object_pairs_hook=lambda pairs: pairs)
        keys = [key for key, _ in pairs]
        return json.loads(line) if len(keys) == len(set(keys)) else None
    except json.JSONDecodeError:
        return None


@pytest.fixture(scope="module")
def lines():
    return gzip.decompress(FEEDBACK.read_bytes()).decode().removesuffix("\n").split("\n")


@pytest.fixture(scope="module")
def rows(lines):
    return [row for line in lines if (row := parsed(line)) is not None]


@pytest.fixture(scope="module")
def sound(rows):
    """The rows of two distinct responses, each distinct row once."""
    distinct = {json.dumps(row): row for row in rows}.values()
    return [
        r
        for r in distinct
        if r["response_a"].strip() and r["response_b"].strip() and r["response_a"] != r["response_b"]
    ]


def test_card_states_the_hash_and_the_counts(lines, rows):
    assert hashlib.sha256(FEEDBACK.read_bytes()).hexdigest() in CARD
    assert FEEDBACK.stat().st_size < 400_000
    assert len(lines) == card_figure("lines")
    assert len({row["prompt"] for row in rows}) == card_figure("prompts")
    answers = {(row["prompt"], row[f"response_{side}"]) for row in rows for side in "ab"}
    assert len({(p, a) for p, a in answers if a.strip() and not a.endswith(" Indeed.")}) == card_figure("answers")
    assert sum(len(row["votes"]) for row in rows) == card_figure("votes")
    assert {row["family"] for row in rows} == set(FAMILIES)


def test_card_counts_the_blemishes(lines, rows):
    assert len(lines) - len(rows) == card_figure("broken line") + card_figure("key said twice")
    assert sum(parsed(line) is None and line.endswith("}") for line in lines) == card_figure("key said twice")
    empty = [row for row in rows if not (row["response_a"].strip() and row["response_b"].strip())]
    assert len(empty) == card_figure("empty response")
    assert sum(row["response_a"] == row["response_b"] for row in rows) == card_figure("identical responses")
    repeats = Counter(json.dumps(row) for row in rows)
    assert sum(count - 1 for count in repeats.values()) == card_figure("exact duplicate")
    assert sum(row["response_a"].endswith(" Indeed.") for row in rows) == card_figure("near duplicate")
    seen = {(row["prompt"], row["response_a"], row["response_b"]) for row in rows}
    mirrored = [row for row in rows if (row["prompt"], row["response_b"], row["response_a"]) in seen]
    assert sum(row["response_a"] != row["response_b"] for row in mirrored) == 2 * card_figure("mirrored contradiction")


def test_gold_follows_from_the_texts(rows):
    assert rows
    for row in rows:
        score_a, score_b = (gold_score(row["family"], row["constraint"], row[f"response_{side}"]) for side in "ab")
        assert (row["score_a"], row["score_b"]) == (score_a, score_b)
        assert row["gold"] == ("tie" if abs(score_a - score_b) < 0.5 else "a" if score_a > score_b else "b")


def votes_of(annotator, rows):
    """The annotator's votes on `rows` in order of time, with what was judged."""
    columns = ("response_a", "response_b", "score_a", "score_b", "gold")
    seen = [
        {key: row[key] for key in columns} | vote
        for row in rows
        for vote in row["votes"]
        if vote["annotator"] == annotator.name
    ]
    return pl.DataFrame(seen).sort("time")


@pytest.mark.parametrize("annotator", ANNOTATORS, ids=lambda annotator: annotator.name)
def test_annotators_are_as_accurate_as_their_model_and_the_card_say(annotator, sound):
    # The copies made as blemishes carry votes on another text: only pairs that were judged as they stand count.
    seen = {(row["prompt"], row["response_b"], row["response_a"]) for row in sound}
    judged = [
        row
        for row in sound
        if not row["response_a"].endswith(" Indeed.")
        and (row["prompt"], row["response_a"], row["response_b"]) not in seen
    ]
    votes = votes_of(annotator, judged)
    careful = votes.filter(pl.col("seconds") > 8) if annotator.careless != (0, 0) else votes
    decided = careful.filter(pl.col("gold") != "tie")
    assert len(decided) > 400
    probabilities = choice_probabilities(annotator, utility(annotator, decided))
    p = probabilities[np.arange(len(decided)), np.where(decided["gold"].to_numpy() == "a", 0, 1)]
    right = (decided["choice"] == decided["gold"]).sum()
    assert abs(right - p.sum()) < 4 * np.sqrt((p * (1 - p)).sum())

    every = votes.filter(pl.col("gold") != "tie")
    assert (every["choice"] == every["gold"]).mean() == pytest.approx(card_figure(annotator.name), abs=0.0006)


def test_the_careless_spell_is_fast_and_at_chance(sound):
    annotator = next(one for one in ANNOTATORS if one.careless != (0, 0))
    votes = votes_of(annotator, sound)
    fast = votes.with_row_index().filter(pl.col("seconds") < 8)
    first, last = annotator.careless
    assert len(fast) > 0.9 * (last - first)
    assert fast["index"].quantile(0.05) > first - 30
    assert fast["index"].quantile(0.95) < last + 30
    assert (fast["choice"] == fast["gold"]).mean() == pytest.approx(1 / 3, abs=0.12)


WORLD = Path(__file__).parents[1] / "examples" / "feedback_world"


@pytest.fixture(scope="module")
def world_rows():
    return [json.loads(line) for line in gzip.decompress((WORLD / "feedback.jsonl.gz").read_bytes()).splitlines()]


def test_the_worlds_card_states_its_hash_and_counts(world_rows):
    card = (WORLD / "README.md").read_text()
    assert hashlib.sha256((WORLD / "feedback.jsonl.gz").read_bytes()).hexdigest() in card
    counts = {
        "lines": len(world_rows),
        "prompts": len({row["prompt"][0]["content"] for row in world_rows}),
        "votes": sum(len(row["votes"]) for row in world_rows),
    }
    for label, count in counts.items():
        assert f"| {label} | {count:,} |" in card


def test_a_fifth_of_the_worlds_better_answers_is_outvoted(world_rows):
    """All votes of 20 % of the decided pairs are turned round, so the majority is right on about 77 % of them."""
    right = []
    for row in world_rows:
        prompt = row["prompt"][0]["content"]
        lead = gold_reward(prompt, row["response_a"]) - gold_reward(prompt, row["response_b"])
        votes = Counter(vote["choice"] for vote in row["votes"])
        if lead and votes["a"] != votes["b"]:
            right.append((votes["a"] > votes["b"]) == (lead > 0))
    assert len(right) > 1_000
    assert 0.72 < np.mean(right) < 0.82
