"""The thread that answers questions, with a connection of its own: reads wait for no write.

A read that lasts keeps the log from being folded back and lets it grow without limit, so each is bounded in time.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import apsw

from pyrula_runtime.stores.sqlite import connection, failures
from pyrula_runtime.stores.sqlite.answers import Call, Intake, send_home

Read = Call[apsw.Connection, Any]
_STEPS = 10_000  # virtual machine steps between two looks at the time: about a millisecond


class Reads:
    """Runs read calls in order of arrival."""

    def __init__(self, path: Path, read_s: float) -> None:
        self._path = path
        self._read_s = read_s
        self._intake: Intake[Read] = Intake()
        self._db: apsw.Connection | None = None
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._run, name="pyrula-store-reads", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def put(self, read: Read) -> None:
        """Queue a call."""
        self._intake.put(read)

    def stop(self) -> None:
        """Answer what is queued, then end; waits for it."""
        self._intake.end()
        self._thread.join()

    def _run(self) -> None:
        last = False
        while not last:
            reads, last = self._intake.take(1, None)
            for read in reads:
                self._answer(read)
            send_home(reads)
        self._drop()

    def _answer(self, read: Read) -> None:
        try:
            self._db = db = self._db or self._connect()
            self._deadline = time.monotonic() + self._read_s
            read.outcome = read.work(db)
        except apsw.InterruptError as error:
            read.failure = failures.ours(error, self._path)
        except apsw.Error as error:
            read.failure = failures.ours(error, self._path)
            self._drop()
        except Exception as error:  # noqa: BLE001 - a bug in one read is its caller's to hear
            read.failure = error

    def _drop(self) -> None:
        """Let go of the connection; the next read, if there is one, gets a new one."""
        if self._db is not None:
            self._db.close(True)
        self._db = None

    def _connect(self) -> apsw.Connection:
        db = connection.bare(self._path)
        connection.tune(db)
        db.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS)
        return db
