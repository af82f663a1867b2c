"""The same six workflows, and a note for each statement that the worker gives to SQLite: what an idle worker does.

apsw calls the hook for every connection that is opened after this import, and a worker imports what it serves first.
"""

from __future__ import annotations

from typing import Any

import apsw

from benchmarks.inside.pyrula_app import five, idle0, idle1, idle2, noop, one_long, pen

__all__ = ["five", "idle0", "idle1", "idle2", "noop", "one_long"]


def _trace(event: dict[str, Any]) -> None:
    sql = str(event["sql"]).split(None, 1)
    pen.note("statement", sql[0].upper() if sql else "-")


def _watch(connection: apsw.Connection) -> None:
    connection.trace_v2(apsw.SQLITE_TRACE_STMT, _trace)


apsw.connection_hooks.append(_watch)
