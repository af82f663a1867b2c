"""What SQLite does on this disk when nothing else is done: rows in the grouping in which a run's rows can be written.

Every commit is durable (WAL, synchronous=FULL) and made under a lock of the host, as it must be when several processes
write: SQLite's own waiting starves one of them. The table is the smallest that a run fits in. Per run of k steps there
are k journal rows of 120 bytes, each with an update of the run's row (its length and lock), and an update that claims;
the ending is part of the last. Runs go 50 abreast: one transaction holds the same stage of 50 runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from benchmarks.tape import Pen

ABREAST = 50
_BODY = b"x" * 120
_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    n INTEGER PRIMARY KEY, id TEXT UNIQUE, status TEXT, ready INTEGER, lock_until INTEGER, length INTEGER, body BLOB
);
CREATE INDEX IF NOT EXISTS run_ready ON run (n) WHERE ready = 1;
CREATE TABLE IF NOT EXISTS journal (run INTEGER, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID;
"""


def connect(path: str) -> apsw.Connection:
    """A durable connection."""
    db = apsw.Connection(path)
    db.set_busy_timeout(10_000)
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    return db


class Raw:
    """One process's connection, and its transactions."""

    def __init__(self, path: str) -> None:
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT)
        with self._locked():  # a file cannot be put into WAL mode by two at once
            self.db = connect(path)
            self.db.execute(_SCHEMA)

    @contextmanager
    def alone(self) -> Iterator[apsw.Connection]:
        """One transaction under the host's lock."""
        with self._locked():
            self.db.execute("BEGIN IMMEDIATE")
            yield self.db
            self.db.execute("COMMIT")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def submit(self, count: int, abreast: int) -> None:
        """Insert runs, `abreast` in a transaction."""
        ids = iter(f"{os.getpid()}-{n}-01JD0000000000000000" for n in range(count))
        for _ in range(count // abreast):
            with self.alone() as db:
                db.executemany(
                    "INSERT INTO run (id, status, ready, length, body) VALUES (?, 'queued', 1, 0, ?)",
                    [(next(ids), _BODY) for _ in range(abreast)],
                )

    def drain(self, steps: int) -> int:
        """Claim and finish runs until there are none; how many it were."""
        done = 0
        with self.alone():
            mine = self._claim()
        while mine:
            for seq in range(steps - 1):
                with self.alone():
                    self._append(mine, seq)
            with self.alone():
                if steps:
                    self._append(mine, steps - 1)
                self.db.executemany(
                    "UPDATE run SET status = 'completed', lock_until = NULL, body = ?2 WHERE id = ?1",
                    [(run, _BODY) for _, run in mine],
                )
                done += len(mine)
                mine = self._claim()
        return done

    def _claim(self) -> list[tuple[int, str]]:
        found = self.db.execute("SELECT n, id FROM run WHERE ready = 1 ORDER BY n LIMIT ?", (ABREAST,)).fetchall()
        self.db.executemany(
            "UPDATE run SET ready = 0, status = 'running', lock_until = ?2 WHERE id = ?1",
            [(run, time.monotonic_ns()) for _, run in found],
        )
        return [(int(str(n)), str(run)) for n, run in found]

    def _append(self, mine: list[tuple[int, str]], seq: int) -> None:
        self.db.executemany("INSERT INTO journal VALUES (?, ?, ?)", [(n, seq, _BODY) for n, _ in mine])
        self.db.executemany(
            "UPDATE run SET length = length + 1, lock_until = ?2 WHERE id = ?1",
            [(run, time.monotonic_ns()) for _, run in mine],
        )


def main() -> None:
    """Read the command line: path, what to do, how many (runs to submit, or steps to drain them with)."""
    path, what, many = sys.argv[1:]
    raw, pen, count = Raw(path), Pen(), int(many)
    actions: dict[str, Callable[[], object]] = {
        "single": lambda: raw.submit(count, 1),
        "grouped": lambda: raw.submit(count, ABREAST),
        "drain": lambda: raw.drain(count),
    }
    pen.note("begin", what)
    actions[what]()
    pen.note("end", what)
    sys.stdout.write(f"{json.dumps({})}\n")


if __name__ == "__main__":
    main()
