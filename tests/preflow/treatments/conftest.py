import polars as pl
import pytest

from preflow.ingest.canonical import digest, pair_id_of
from preflow.schemas import PreferencePairs

SYSTEM, USER = {"role": "system", "content": "Be brief.\n\n"}, {"role": "user", "content": "Why?"}
PROMPTS = [
    [USER],
    [SYSTEM, USER],
    [],
    [{"role": "system", "content": ""}],
    [USER, {"role": "assistant", "content": "Hm."}, {"role": "user", "content": "\n\nWell?\u2028"}],
    [{"role": "assistant", "content": "Hello."}],
    [{"role": "user", "content": ""}],
]


def pair(prompt, a, b, *, chosen_is="a", score_chosen=None, score_rejected=None, split="train"):
    chosen, rejected = (a, b) if chosen_is == "a" else (b, a)
    return {
        "pair_id": pair_id_of(prompt, a, b),
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
        "chosen_is": chosen_is,
        "label_source": "majority",
        "n_votes": 3,
        "vote_share": 2 / 3,
        "agreement": 0.5,
        "score_chosen": score_chosen,
        "score_rejected": score_rejected,
        "margin": None if score_chosen is None or score_rejected is None else score_chosen - score_rejected,
        "prompt_group": digest(prompt),
        "split": split,
        "source": "test",
        "flags": [],
    }


def frame(rows):
    return PreferencePairs.cast(pl.DataFrame(rows, schema=PreferencePairs.create_empty().schema).sort("pair_id"))


@pytest.fixture
def make_pair():
    return pair


@pytest.fixture
def make_pairs():
    return frame


@pytest.fixture
def scored_pairs():
    """Every shape of prompt; scores with and without decimals; labels for and against the scores; ties."""
    scores = [(9.0, 4.5), (4.5, 9.0), (10.0, 1.0), (7.25, 7.0), (5.0, 5.0), (0.0, -2.0)]
    rows = [
        pair(prompt, f"one {i} ünï", f"two\n{i} ", chosen_is="ab"[i % 2], score_chosen=high, score_rejected=low)
        for i, (high, low) in enumerate(scores * 4)
        for prompt in PROMPTS
    ]
    return frame(rows)
