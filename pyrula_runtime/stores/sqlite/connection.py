"""Opening a connection: the settings every connection must have, in the order in which they must come."""

from __future__ import annotations

from pathlib import Path

import apsw

# Only a foreign program (the sqlite3 shell, a backup tool) can make us wait for SQLite's own locks.
BUSY_MS = 5_000


def bare(path: Path, *, create: bool = False) -> apsw.Connection:
    """A connection that has not touched the file yet: it waits when busy and never checkpoints by itself."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    db = apsw.Connection(str(path), flags=flags)
    # First of all: setting the journal mode on a busy file fails at once without it.
    db.set_busy_timeout(BUSY_MS)
    # A checkpoint belongs under the write lock, and neither a commit nor a close asks for that.
    db.wal_autocheckpoint(0)
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return db


def tune(db: apsw.Connection) -> None:
    """Durability and access for a file that is known to be ours."""
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")  # a commit survives a power cut
    db.pragma("mmap_size", 0)  # an I/O error must be an error code, not a SIGBUS
    db.pragma("temp_store", "memory")
