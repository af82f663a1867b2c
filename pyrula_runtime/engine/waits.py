"""The open waits of one turn: what is due when, and what the body gets when one is over.

Which wait is over next is the core's to say (core.waiting). When a wait is due was fixed when the body asked for it, by
the body's own time, so it is the same in every replay: nothing has to be written down for a run to wait.
"""

from __future__ import annotations

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import Completed
from pyrula_runtime.core.waiting import OpenWait, OpenWaits
from pyrula_runtime.engine.program import WaitCall


class Waits:
    """One turn's."""

    def __init__(self) -> None:
        self._open = OpenWaits()

    def begin(self, asked: Asked, call: WaitCall) -> None:
        """Wait for this, too."""
        self._open.open(OpenWait(op=asked.op, due_ms=_due_ms(asked, call)))

    def end(self, op_id: str) -> None:
        """The body does not want it any more."""
        self._open.close(op_id)

    @property
    def due_ms(self) -> int | None:
        """When the first of them is over by itself."""
        return self._open.next_due_ms()

    def next(self, now_ms: int) -> Completed | None:
        """The outcome of the wait that is over now, if any is; the wait is closed by that."""
        settled = self._open.settle(now_ms)
        return None if settled is None else Completed(op=settled.wait.op, at_ms=now_ms, value=None)


def _due_ms(asked: Asked, call: WaitCall) -> int | None:
    return call.until_ms if call.for_ms is None else asked.at_ms + call.for_ms
