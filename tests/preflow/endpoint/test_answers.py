import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from preflow.endpoint.answers import DamagedAnswersError, keep_answer, read_answers

WRITER = """
import sys
from pathlib import Path
from preflow.endpoint.answers import keep_answer
for i in range(100_000):
    keep_answer(Path(sys.argv[1]), f"key {i}", f"answer {i}")
    print(i, flush=True)
"""


def test_answers_come_back_and_the_first_one_stands(tmp_path):
    path = tmp_path / "new" / "answers.sqlite"
    assert read_answers(path) == {}
    assert keep_answer(path, "k", "A") == "A"
    assert keep_answer(path, "k", "B") == "A"
    assert keep_answer(path, "empty", "") == ""
    assert keep_answer(path, "text", "日本\0\n") == "日本\0\n"
    assert read_answers(path) == {"k": "A", "empty": "", "text": "日本\0\n"}


def test_threads_that_answer_the_same_agree_on_one_answer(tmp_path):
    path = tmp_path / "answers.sqlite"
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda i: keep_answer(path, f"key {i % 5}", f"answer {i}"), range(80)))
    stored = read_answers(path)
    assert len(stored) == 5
    assert kept == [stored[f"key {i % 5}"] for i in range(80)]


def test_no_changed_byte_gives_another_answer(tmp_path):
    """A flipped bit is seen, or at worst hides answers, which are then asked for again."""
    path, damaged = tmp_path / "answers.sqlite", tmp_path / "damaged.sqlite"
    for i in range(40):
        keep_answer(path, f"key {i}", f"answer {i}")
    written, data = read_answers(path), path.read_bytes()
    seen = 0
    for position in range(0, len(data), 5):
        damaged.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        try:
            assert read_answers(damaged).items() <= written.items()
        except (DamagedAnswersError, sqlite3.OperationalError):
            seen += 1
    assert seen > len(data) // 5 // 10


def test_damage_is_named_with_its_remedy(tmp_path):
    path = tmp_path / "answers.sqlite"
    for i in range(10):
        keep_answer(path, f"key {i}", f"answer {i}")
    path.write_bytes(path.read_bytes().replace(b"answer 7", b"answer 8"))
    with pytest.raises(DamagedAnswersError, match=r"answers\.sqlite was altered.*delete it"):
        read_answers(path)
    with pytest.raises(DamagedAnswersError, match="altered"):
        keep_answer(path, "key 7", "answer 7")
    path.write_text("no database at all, but long enough to look like a file of answers" * 20)
    with pytest.raises(DamagedAnswersError, match="altered"):
        read_answers(path)


def test_kill_9_loses_no_answer_that_was_kept(tmp_path):
    path = tmp_path / "answers.sqlite"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    with writer.stdout as lines:
        last = [int(next(lines)) for _ in range(30)][-1]
        os.kill(writer.pid, signal.SIGKILL)
        last = max([last, *map(int, lines.read().split())])
    writer.wait()
    stored = read_answers(path)
    assert len(stored) in {last + 1, last + 2}  # the next one may have been kept before it was told
    assert all(stored[f"key {i}"] == f"answer {i}" for i in range(last + 1))
    assert keep_answer(path, "after", "the kill") == "the kill"
