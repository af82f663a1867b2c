"""Folding the log back into the file, at the right time and only under the write lock.

SQLite before 3.51.3 may lose pages when a commit resets the log while another connection checkpoints. Since every
commit and every checkpoint of every process happens under the one lock, they never meet. A passive checkpoint does what
it can without waiting for readers; a log that grew all the same (a reader held on) is cut once it passes a limit.
"""

from __future__ import annotations

from contextlib import suppress

import apsw

_PAGE_BYTES = 4096
_READER_MS = 100  # how long cutting the log waits for readers, while nobody can write


class Checkpoints:
    """Counts a connection's log and folds it; `is_due` says when."""

    def __init__(self, db: apsw.Connection, every_pages: int, truncate_bytes: int) -> None:
        self._db = db
        self._every = every_pages
        self._longest = truncate_bytes // _PAGE_BYTES
        self._pages = 0
        self._due_at = every_pages
        db.set_wal_hook(self._count)

    def _count(self, db: apsw.Connection, name: str, pages: int) -> int:
        if pages < self._pages:  # the log began anew
            self._due_at = self._every
        self._pages = pages
        return apsw.SQLITE_OK

    @property
    def is_due(self) -> bool:
        """Whether the log has grown enough; it counts the commits of all processes."""
        return self._pages >= self._due_at

    def fold(self, busy_ms: int) -> None:
        """Do it; the caller holds the write lock. `busy_ms` is the connection's own patience, restored afterwards."""
        self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if self._pages > self._longest:
            self._db.set_busy_timeout(_READER_MS)
            with suppress(apsw.BusyError):  # a reader is still there: the next time is soon enough
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self._pages = 0
            self._db.set_busy_timeout(busy_ms)
        self._due_at = self._pages + self._every
