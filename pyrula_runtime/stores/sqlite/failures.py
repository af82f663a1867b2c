"""The one seam where SQLite's errors become ours: what happened, and what the operator should do.

`StoreUnavailable` promises that trying again can help; `StoreCorrupt` that it cannot.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from pyrula_runtime.core.errors import PyrulaError, StoreCorrupt, StoreUnavailable

_HELP: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.FullError, "the disk is full; free some space, pyrula goes on by itself"),
    (apsw.ReadOnlyError, "the file or its directory is read-only; make it writable, pyrula goes on by itself"),
    (apsw.PermissionsError, "this user may not open it; fix its permissions"),
    (apsw.CantOpenError, "it cannot be opened; check that its directory exists and is writable"),
    (apsw.BusyError, "another program keeps it locked; end that program, pyrula goes on by itself"),
    (apsw.InterruptError, "the read took longer than it may; ask for less at once"),
    (apsw.IOError, "reading or writing it failed; check the disk, pyrula goes on by itself"),
)


def is_damage(error: BaseException) -> bool:
    """Whether the file itself is broken."""
    return isinstance(error, apsw.CorruptError | apsw.NotADBError)


def ours(error: Exception, path: Path) -> PyrulaError:
    """A fresh error of ours for SQLite's; `error` becomes its cause."""
    if isinstance(error, PyrulaError):
        return type(error)(*error.args)
    found = damaged(path, str(error)) if is_damage(error) else _unavailable(error, path)
    found.__cause__ = error
    return found


def damaged(path: Path, detail: str) -> StoreCorrupt:
    """What to say and do about a broken file."""
    return StoreCorrupt(
        f"store {path} is damaged ({detail}): nothing is written any more, nothing was deleted. Stop all workers, "
        f"copy {path} with its -wal and -shm files, then restore a backup or run 'sqlite3 {path} .recover'"
    )


def _unavailable(error: Exception, path: Path) -> StoreUnavailable:
    return StoreUnavailable(f"store {path}: {_help(error)} ({error})")


def _help(error: BaseException) -> str:
    for kind, advice in _HELP:
        if isinstance(error, kind):
            return advice
    return "it could not be used"
