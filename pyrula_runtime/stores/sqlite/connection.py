"""Opening a connection: the settings every connection must have, in the order in which they must come."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import apsw

from pyrula_runtime.core.errors import StoreUnavailable

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


def beside(path: Path, suffix: str) -> Path:
    """A companion of the store's file, the same by whatever link the file was reached."""
    return Path(os.path.realpath(path) + suffix)


# what SQLite and we keep beside the file and share with other processes
_SHARED = ("-wal", "-shm", ".lock")


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The file that was opened, so that another one under its name is noticed: what we write to it nobody would see."""

    path: Path
    device: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> StoreFile:
        """The file that has this path now."""
        found = path.stat()
        return cls(path, found.st_dev, found.st_ino)

    def beside(self, suffix: str) -> Path:
        """A companion of the file."""
        return beside(self.path, suffix)

    def companions(self) -> dict[str, tuple[int, int]]:
        """Device and inode of the files that a connection shares with others: log, its index, write lock."""
        found = {}
        for suffix in _SHARED:
            with suppress(FileNotFoundError):
                companion = self.beside(suffix).stat()
                found[suffix] = companion.st_dev, companion.st_ino
        return found

    def check_companions(self, known: Mapping[str, tuple[int, int]]) -> None:
        """Raise StoreUnavailable unless they are those known: with others, two processes would overwrite each other."""
        now = self.companions()
        gone = [self.beside(suffix).name for suffix, identity in known.items() if now.get(suffix) != identity]
        if gone:
            raise StoreUnavailable(
                f"store {self.path} has lost {' and '.join(gone)} while it was in use; nothing is written any more, "
                f"so stop everything that uses it, look with 'pyrula store check' and start again"
            )

    def check(self) -> None:
        """Raise StoreUnavailable unless the path still leads to this file."""
        try:
            if StoreFile.at(self.path) == self:
                return
        except FileNotFoundError:
            pass
        raise StoreUnavailable(
            f"store {self.path} was removed or replaced while it was in use; stop everything that uses it, "
            f"put the right file with its -wal in place, and start again"
        )
