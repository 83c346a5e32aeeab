"""A content-addressed, append-only file of a language model's answers that survives kill -9.

One SQLite file: a row is whole or absent, and threads and processes may add at the same time. Every row carries a
checksum, so a changed byte is seen on reading. Not `diskcache`: a row there says how it is decoded, and one way is
pickle, also under its JSONDisk.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT, checksum TEXT) WITHOUT ROWID"
_BUSY_S = 60  # how long to wait for another writer
# The statements are fixed, so SQLITE_ERROR too means that the file is not the one that was written.
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}


class DamagedAnswersError(ValueError):
    """A file of answers whose bytes are not those that were written."""


def read_answers(path: Path) -> dict[str, str]:
    """All answers of the file by key; none where there is no file yet.

    Raises
    ------
    DamagedAnswersError
        The file was altered after it was written, or is no such file.
    """
    if not path.exists():
        return {}
    with _database(path) as db:
        if db.execute("PRAGMA integrity_check").fetchall() != [(b"ok",)]:
            raise _damaged(path)
        return dict(_checked(path, row) for row in db.execute("SELECT key, answer, checksum FROM answers ORDER BY key"))


def keep_answer(path: Path, key: str, answer: str) -> str:
    """Add an answer durably and return the one that stands: the first that was kept under `key`.

    Raises
    ------
    DamagedAnswersError
        The file was altered after it was written, or is no such file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    row = (key, answer, _checksum(key.encode(), answer.encode()))
    with _database(path) as db:
        db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", row)
        kept = db.execute("SELECT key, answer, checksum FROM answers WHERE key = ?", (key,)).fetchone()
        return _checked(path, kept)[1]


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of its own for each call, which makes SQLite's file locks guard threads as well; one transaction."""
    try:
        with closing(sqlite3.connect(path, timeout=_BUSY_S)) as db, db:
            db.text_factory = bytes  # a damaged text may be no UTF-8; it is decoded once its checksum is seen to hold
            db.execute(_TABLE)
            yield db
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _DAMAGE:
            raise _damaged(path) from error
        raise


def _checked(path: Path, row: tuple[bytes, bytes, bytes]) -> tuple[str, str]:
    if not all(isinstance(value, bytes) for value in row) or _checksum(*row[:2]).encode() != row[2]:
        raise _damaged(path)
    return row[0].decode(), row[1].decode()


def _checksum(key: bytes, answer: bytes) -> str:
    return hashlib.sha256(key + b"\0" + answer).hexdigest()


def _damaged(path: Path) -> DamagedAnswersError:
    return DamagedAnswersError(f"{path} was altered after it was written; delete it: its answers are asked for again")
