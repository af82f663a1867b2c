"""The way into a body: entries enter one at a time, in the journal's order, live as in a replay.

With each of them the body's time moves on, so that it is the same in every replay. What the body did itself does not
come in: live it was there already.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyrula_runtime.core.cursor import Cursor
from pyrula_runtime.core.entries import CancelRequested, Completed, DeadlinePassed, Entry, Failed, is_own_doing
from pyrula_runtime.core.errors import InputError
from pyrula_runtime.engine.blows import Blows
from pyrula_runtime.engine.body import Body
from pyrula_runtime.engine.failure import raised_for
from pyrula_runtime.engine.program import Request


class Entrance:
    """That of one turn's body; `requests` says by operation what the body has asked for."""

    def __init__(self, now_ms: int, cursor: Cursor, blows: Blows, requests: Mapping[str, Request]) -> None:
        """`now_ms` is the time as the body knows it at its beginning."""
        self.now_ms = now_ms
        self._cursor = cursor
        self._blows = blows
        self._requests = requests

    def let_in(self, entry: Entry, body: Body) -> None:
        """One entry enters the body; the body runs until it is parked again or has ended."""
        if is_own_doing(entry):  # live it does not come in, so it must not move time
            return
        self.now_ms = max(self.now_ms, entry.at_ms)
        match entry:
            case Completed(op=op, value=value) if self._cursor.wants(op):
                try:
                    body.deliver(op, self._requests[op.op_id].from_json(value), None)
                except InputError as error:
                    body.deliver(op, None, error)
            case Failed(op=op) if self._cursor.wants(op):
                body.deliver(op, None, raised_for(entry))
            case CancelRequested() | DeadlinePassed() if self._blows.strikes(entry):
                body.strike()
            case _:
                pass  # attempts and outcomes nobody waits for do not enter the body
