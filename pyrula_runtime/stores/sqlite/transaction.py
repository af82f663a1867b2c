"""What a verb gets to work with inside the writer's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from pyrula_runtime.stores.protocol import Wake

Value = str | bytes | int | None


@dataclass(slots=True)
class Tx:
    """An open transaction with its time, read once it has the write lock, and the wakes to send if it commits."""

    db: apsw.Connection
    wall_ms: int
    mono_ms: int
    strained: bool = False  # the disk is full but for what the ballast left: finish, begin nothing
    wakes: set[Wake] = field(default_factory=set)

    def rows(self, statement: str, *values: Value) -> list[tuple[Any, ...]]:
        """Run a statement to its end; its rows."""
        return self.db.execute(statement, values).fetchall()


def rows(db: apsw.Connection, statement: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
    """Run a statement outside of a writer's transaction; its rows."""
    return db.execute(statement, values).fetchall()
