"""A note for each statement that a worker gives to SQLite: what it does while it has nothing to do.

apsw calls the hook for every connection that is opened after it was set; a worker imports what it serves first.
"""

from __future__ import annotations

import os
from typing import Any

import apsw

from benchmarks.tape import Pen

VARIABLE = "BENCHMARK_STATEMENTS"


def note_if_asked(pen: Pen) -> None:
    """Begin, if the environment asks for it."""
    if VARIABLE not in os.environ:
        return

    def note(event: dict[str, Any]) -> None:
        pen.note("statement", (str(event["sql"]).split(None, 1) or ["-"])[0].upper())

    apsw.connection_hooks.append(lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_STMT, note))
