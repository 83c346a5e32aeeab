import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from preflow import store as store_module
from preflow.store import ArrayStore, ShardError, content_key

WRITER = """
import sys
from pathlib import Path
import numpy as np
from preflow.store import ArrayStore, content_key
store = ArrayStore(Path(sys.argv[1]))
for i in range(100_000):
    store.add({content_key(i): np.full(64, i, np.float32)})
"""


def arrays(*sizes):
    return {content_key("ragged", n): np.arange(n, dtype=np.float32) for n in sizes}


def test_ragged_arrays_come_back_bit_for_bit(tmp_path):
    stored = arrays(0, 1, 7) | arrays(300)
    ArrayStore(tmp_path).add(stored)
    read = ArrayStore(tmp_path).arrays
    assert read.keys() == stored.keys()
    assert all(np.array_equal(read[key], stored[key]) and read[key].dtype == np.float32 for key in stored)


def test_bytes_do_not_depend_on_the_order_of_entries(tmp_path):
    stored = arrays(3, 4, 5)
    for name, items in {"one": stored, "two": dict(reversed(stored.items()))}.items():
        ArrayStore(tmp_path / name).add(items)
    one, two = ([(p.name, p.read_bytes()) for p in (tmp_path / n).iterdir()] for n in ("one", "two"))
    assert len(one) == 1
    assert one == two


def test_a_flipped_byte_is_named_with_its_remedy(tmp_path):
    ArrayStore(tmp_path).add(arrays(100))
    (shard,) = tmp_path.iterdir()
    data = bytearray(shard.read_bytes())
    data[-7] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ShardError, match=rf"{shard.name} was altered.*delete it"):
        ArrayStore(tmp_path)


def test_kill_9_leaves_only_whole_entries_and_the_next_writer_no_orphan(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    while len(list(tmp_path.glob("*.safetensors"))) < 3:
        assert writer.poll() is None
        time.sleep(0.01)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    (tmp_path / "half.partial").write_bytes(b"what a kill in the middle of a write leaves")
    store = ArrayStore(tmp_path)
    assert not list(tmp_path.glob("*.partial"))
    assert len(store.arrays) >= 3
    for i in range(len(store.arrays)):
        np.testing.assert_array_equal(store.arrays[content_key(i)], np.full(64, i, np.float32))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("../escape", np.zeros(2, np.float32), "content_key"),
        (content_key("x"), np.zeros(2), "float64"),
        (content_key("x"), np.zeros((2, 2), np.float32), "1-D"),
        (content_key("x"), np.array([np.nan], np.float32), "NaN"),
    ],
)
def test_bad_entries_are_refused_and_nothing_is_written(tmp_path, key, value, message):
    with pytest.raises(ValueError, match=message):
        ArrayStore(tmp_path).add(arrays(3) | {key: value})
    assert not list(tmp_path.iterdir())


def test_key_parts_do_not_run_together():
    assert content_key("ab", "c") != content_key("a", "bc")
    assert content_key("ab", 1) == content_key("ab", "1")


def test_fill_computes_what_is_missing_shard_by_shard(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "BATCHES_PER_SHARD", 1)
    asked = []

    def compute(keys):
        asked.append(list(keys))
        return [np.full(2, len(key), np.float32) for key in keys]

    keys = [content_key(n) for n in range(5)]
    store = ArrayStore(tmp_path)
    store.add({keys[1]: np.zeros(2, np.float32)})
    assert store.fill([keys[:2], keys[2:4], keys[4:]], compute, what="numbers") == 4
    assert asked == [[keys[0]], keys[2:4], keys[4:]]
    assert store.fill([keys], compute, what="numbers") == 0
    assert store.arrays.keys() == ArrayStore(tmp_path).arrays.keys() == set(keys)
    assert len(list(tmp_path.glob("*.safetensors"))) == 4
