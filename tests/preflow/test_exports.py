import hashlib
import json

import polars as pl
import pytest

from preflow.exports import PreferenceDataset, dataset_card, export_splits
from preflow.schemas import PreferencePairs


def make_pairs(splits):
    n = len(splits)
    frame = pl.DataFrame(
        {
            "pair_id": [f"{i:032x}" for i in reversed(range(n))],
            "prompt": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Q{i}?"}] if i else []
                       for i in range(n)],
            "chosen": [f'good "{i}"\n\u2028 ünï' for i in range(n)],
            "rejected": [f"bad {i}" for i in range(n)],
            "chosen_is": ["a"] * n,
            "label_source": ["majority" if i % 2 else "gold" for i in range(n)],
            "n_votes": [3] * n,
            "vote_share": [2 / 3] * n,
            "agreement": [0.5] * n,
            "score_chosen": [None if i % 2 else 7.5 for i in range(n)],
            "score_rejected": [None if i % 2 else 3.0 for i in range(n)],
            "margin": [None if i % 2 else 4.5 for i in range(n)],
            "prompt_group": ["b" * 32] * n,
            "split": splits,
            "source": ["votes|of\nus" if i % 2 else "scores" for i in range(n)],
            "flags": [[] for _ in range(n)],
        }
    )  # fmt: skip
    return PreferencePairs.validate(frame, cast=True)


SOME = ["train"] * 6 + ["validation"] * 2 + ["test"] * 3


def written(folder, splits, name="Votes"):
    pairs = make_pairs(splits)
    PreferenceDataset(export_splits(pairs), dataset_card(pairs, name=name)).save_to_disk(folder)
    return pairs


def load(path, tmp_path, **kwargs):
    datasets = pytest.importorskip("datasets", reason="the `datasets` package is absent")
    return datasets.load_dataset(str(path), cache_dir=str(tmp_path / "cache"), **kwargs)


def test_both_forms_load_with_equal_rows(tmp_path):
    folder = tmp_path / "d"
    written(folder, SOME)
    files = {split: str(folder / f"{split}.jsonl") for split in ("train", "validation", "test")}
    parquet, jsonl = load(folder, tmp_path), load("json", tmp_path, data_files=files)
    assert {split: len(rows) for split, rows in parquet.items()} == {"train": 6, "validation": 2, "test": 3}
    for split in parquet:
        assert parquet[split].to_list() == jsonl[split].to_list()


def test_rows_are_conversational_and_keep_their_text(tmp_path):
    pairs = written(tmp_path / "d", SOME)
    rows = load(tmp_path / "d", tmp_path)["train"].to_list()
    truth = {row["pair_id"]: row for row in pairs.iter_rows(named=True)}
    assert [row["pair_id"] for row in rows] == sorted(row["pair_id"] for row in rows)
    for row in rows:
        source = truth[row["pair_id"]]
        assert row["prompt"] == source["prompt"]
        assert row["chosen"] == [{"role": "assistant", "content": source["chosen"]}]
        assert row["rejected"] == [{"role": "assistant", "content": source["rejected"]}]
        assert (row["vote_share"], row["margin"]) == (source["vote_share"], source["margin"])


def test_trl_sees_a_conversational_preference_row():
    data_utils = pytest.importorskip("trl.data_utils", reason="trl is absent")
    row = export_splits(make_pairs(SOME))["test"].row(0, named=True)
    assert data_utils.is_conversational(row)


def test_split_without_rows_is_written_but_not_announced(tmp_path):
    written(tmp_path / "d", ["train"] * 4)
    assert (tmp_path / "d" / "validation.jsonl").read_bytes() == b""
    assert pl.read_parquet(tmp_path / "d" / "validation.parquet").height == 0
    assert set(load(tmp_path / "d", tmp_path)) == {"train"}


def test_no_pairs_at_all_still_writes_typed_files(tmp_path):
    pairs = make_pairs(SOME).clear()
    PreferenceDataset(export_splits(pairs), dataset_card(pairs, name="Nothing")).save_to_disk(tmp_path)
    assert pl.read_parquet(tmp_path / "train.parquet").schema == export_splits(make_pairs(SOME))["train"].schema


def test_same_pairs_in_any_order_give_the_same_bytes(tmp_path):
    pairs = make_pairs(SOME)
    for name, frame in (("one", pairs), ("two", pairs.reverse())):
        PreferenceDataset(export_splits(frame), dataset_card(frame, name="Votes")).save_to_disk(tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) == 7
    for name in names:
        one, two = ((tmp_path / side / name).read_bytes() for side in ("one", "two"))
        assert hashlib.sha256(one).digest() == hashlib.sha256(two).digest()


def test_jsonl_holds_one_row_a_line(tmp_path):
    written(tmp_path, SOME)
    lines = (tmp_path / "train.jsonl").read_bytes().splitlines()
    assert len(lines) == 6
    assert set(json.loads(lines[0])) >= {"prompt", "chosen", "rejected", "pair_id"}


def test_card_counts_what_is_there():
    card = dataset_card(make_pairs(SOME), name="Votes", licence="cc-by-4.0")
    assert 'license: "cc-by-4.0"' in card
    assert "| train | 6 |" in card
    assert "| scores | 6 |" in card
    assert "| majority | 5 |" in card
    assert "Licence of the feedback: unknown" in dataset_card(make_pairs(SOME), name="Votes")
