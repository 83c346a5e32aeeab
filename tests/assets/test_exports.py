import polars as pl
import pytest

from assets.exports import ExportsParams, training_data
from preflow.schemas import PreferencePairs


@pytest.fixture
def pairs():
    splits = ["train", "train", "validation", "test"]
    rows = [
        {
            "pair_id": f"{number:032x}",
            "prompt": [{"role": "user", "content": f"question {number}"}],
            "chosen": "good",
            "rejected": "bad",
            "chosen_is": "a",
            "label_source": "gold",
            "n_votes": 0,
            "vote_share": 1.0,
            "agreement": 1.0,
            "score_chosen": None,
            "score_rejected": None,
            "margin": None,
            "prompt_group": f"{number:032x}",
            "split": split,
            "source": "mine",
            "flags": [],
        }
        for number, split in enumerate(splits)
    ]
    return PreferencePairs.validate(pl.DataFrame(rows), cast=True)


def test_every_split_is_exported_as_messages_with_its_card(pairs):
    made = training_data(pairs.lazy(), ExportsParams(name="Four pairs", licence="cc-by-4.0"))
    assert {split: len(rows) for split, rows in made.splits.items()} == {"train": 2, "validation": 1, "test": 1}
    assert made.splits["test"]["chosen"].to_list() == [[{"role": "assistant", "content": "good"}]]
    assert "# Four pairs" in made.card
    assert 'license: "cc-by-4.0"' in made.card
