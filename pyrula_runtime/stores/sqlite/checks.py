"""Whether the file is sound: by SQLite's own means, then by the laws that runs, locks and journals keep."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import apsw

from pyrula_runtime.core.errors import StoreRefused
from pyrula_runtime.core.status import TERMINAL
from pyrula_runtime.stores.sqlite import connection, failures, schema
from pyrula_runtime.stores.sqlite.queries import named

SQL = named("checks")
_log = logging.getLogger(__name__)
_STEPS = 10_000  # virtual machine steps between two looks at the time
MOST = 100  # problems reported: a file with so many is not repaired by reading on


def check(path: Path) -> list[str]:
    """What is wrong with the store at `path`, one sentence each; it may be in use meanwhile."""
    try:
        with closing(connection.bare(path)) as db:
            if schema.version_of(db, path) == 0:
                return [f"{path} is empty: no store has been made there yet"]
            db.execute("BEGIN")  # one state of the file for all questions
            return list(islice(_problems(db), MOST))
    except apsw.Error as error:
        return [str(failures.ours(error, path))]
    except StoreRefused as refused:
        return [str(refused)]


def glance(db: apsw.Connection, path: Path, limit_s: float) -> None:
    """Look as much of the file through as can be done within `limit_s`; StoreCorrupt if something is broken."""
    deadline = time.monotonic() + limit_s
    db.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    try:
        found = [str(line) for (line,) in db.execute("PRAGMA quick_check(1)")]
    except apsw.InterruptError:
        _log.warning("store %s is too large to be checked at start; 'pyrula store check' does it in full", path)
        return
    finally:
        db.set_progress_handler(None)
    if found != ["ok"]:
        raise failures.damaged(path, found[0])


def _problems(db: apsw.Connection) -> Iterator[str]:
    damage = [str(line) for (line,) in db.execute("PRAGMA integrity_check")]
    if damage != ["ok"]:
        yield from damage
        return
    yield from audit(db)


def audit(db: apsw.Connection) -> Iterator[str]:
    """Where the runs, their locks, journals and inboxes contradict each other."""
    ended = json.dumps(sorted(TERMINAL))
    for name, statement in SQL.items():
        for (line,) in db.execute(statement, (ended,) if name == "ended_but_alive" else ()):
            yield str(line)
