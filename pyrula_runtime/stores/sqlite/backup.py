"""A consistent copy of a store that may be in use, complete or not there at all.

The copy is made under a temporary name, checked, written through to the disk, and only then gets its name. It carries
no host and no living lock, so it can be opened anywhere at once: a restored backup has no workers yet.
"""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, closing
from pathlib import Path

import apsw

from pyrula_runtime.core.errors import StoreCorrupt, StoreUnavailable, UsageError
from pyrula_runtime.stores.sqlite import connection, failures, hosts, schema


def backup(source: Path, target: Path) -> None:
    """Copy the store at `source` to `target`, which must not exist; blocks."""
    if not source.exists():
        raise UsageError(f"there is no store at {source}; nothing was copied")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise UsageError(f"{target} exists already and was left alone; give the backup another name") from None
    except OSError as error:
        raise StoreUnavailable(f"backup {target} cannot be written: {error.strerror}") from error
    with ExitStack() as undo:
        undo.callback(target.unlink, missing_ok=True)
        undo.callback(draft.unlink, missing_ok=True)
        try:
            _copy(source, draft)
            _reset(draft)
        except apsw.Error as error:
            raise failures.ours(error, source) from error
        _through(draft)
        os.replace(draft, target)
        undo.pop_all()
    _through(target.parent)


def _copy(source: Path, draft: Path) -> None:
    with closing(connection.bare(source)) as db:
        schema.version_of(db, source)
        db.execute("VACUUM INTO ?", (str(draft),))


def _reset(draft: Path) -> None:
    with closing(connection.bare(draft)) as db:
        hosts.vacate(db)
        found = db.execute("PRAGMA quick_check(1)").fetchall()
        if found != [("ok",)]:
            raise StoreCorrupt(f"the copy of the store is damaged ({found[0][0]}); check the store and the disk")


def _through(path: Path) -> None:
    """Make sure that it is on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
