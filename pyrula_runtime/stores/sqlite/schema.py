"""Telling our file from others and bringing it to the current schema.

A file is ours if its `application_id` says so; `user_version` is the number of the last migration it had. Migrations
are the numbered files in `migrations/`, each applied in the transaction that raises the number. A newer number than we
know is refused: the other program knows why it changed the schema, this one does not.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from pyrula_runtime.core.errors import StoreRefused

APPLICATION_ID = 0x50795255  # "PyRU"
_FOLDER = Path(__file__).parent / "migrations"


def _migrations() -> dict[int, Path]:
    return {int(file.stem): file for file in sorted(_FOLDER.glob("*.sql"))}


def version_of(db: apsw.Connection, path: Path) -> int:
    """The schema version of the file, 0 for an empty one; StoreRefused if it is not ours. Changes nothing."""
    try:
        application_id, version = int(db.pragma("application_id")), int(db.pragma("user_version"))
        ((tables,),) = db.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.NotADBError as error:
        raise StoreRefused(f"{path} is not an SQLite file; give the store another path") from error
    if application_id == APPLICATION_ID:
        return version
    if application_id == 0 and version == 0 and tables == 0:
        return 0
    raise StoreRefused(f"{path} is an SQLite file of another program; give the store another path")


def migrate(db: apsw.Connection, path: Path, version: int) -> None:
    """Apply what is missing; the caller holds the write lock."""
    migrations = _migrations()
    current = max(migrations)
    if version > current:
        raise StoreRefused(
            f"{path} has schema version {version}, this Pyrula knows up to {current}; "
            f"install the newer Pyrula again, or use another store"
        )
    for number in range(version + 1, current + 1):
        db.execute("BEGIN IMMEDIATE")
        with_number = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number}; COMMIT"
        db.execute(migrations[number].read_text("utf-8"))
        db.execute(with_number)
