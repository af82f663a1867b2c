"""What strikes a run as a whole: a cancel, and the end of its workflow's time.

Each is an entry of the journal, recorded once; the first of them strikes the body, which may then compensate. The
workflow's time counts from the run's first claim, or from an operator's requeue, which gives the whole of it again.

What is struck must end: code that still unwinds when its time for that is over is given up. While the run is paused
none of that time passes: it has the whole of it again when an operator lets it go on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyrula_runtime.core.cursor import Cursor
from pyrula_runtime.core.entries import CancelRequested, DeadlinePassed, Entry, Requeued, Resumed
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.program import Program
from pyrula_runtime.stores.protocol import Claim


class Blows:
    """The blows of one turn."""

    def __init__(self, claim: Claim, program: Program, journal: Sequence[Entry], cursor: Cursor) -> None:
        self.struck_by: RunStatus | None = None  # how the run ends if the blow unwinds it
        self._unwind_ms = math.ceil(program.cancel_within_s * 1000)
        self._give_up_ms: int | None = None
        self._resumed_ms = max((each.at_ms for each in journal if isinstance(each, Resumed)), default=0)
        timeout_s = program.timeout_s
        self.cancel_taken = cursor.on_record(CancelRequested)
        self._cancel_wanted = claim.cancel_requested
        self._deadline_ms: int | None = None
        if timeout_s is not None and not cursor.on_record(DeadlinePassed):
            since_ms = max([claim.started_ms, *(each.at_ms for each in journal if isinstance(each, Requeued))])
            self._deadline_ms = since_ms + math.ceil(timeout_s * 1000)

    def request_cancel(self) -> None:
        """Somebody wants the run cancelled."""
        self._cancel_wanted = True

    @property
    def due_ms(self) -> int | None:
        """When the next blow comes by itself, if one does; once struck, when the code is given up."""
        return self._deadline_ms if self.struck_by is None else self._give_up_ms

    def is_overdue(self, now_ms: int) -> bool:
        """Whether the code has been unwinding for too long."""
        return self._give_up_ms is not None and self._give_up_ms <= now_ms

    def next(self, now_ms: int) -> CancelRequested | DeadlinePassed | None:
        """The blow that is to be recorded now, if any."""
        if self._cancel_wanted and not self.cancel_taken:
            self.cancel_taken = True
            return CancelRequested(at_ms=now_ms)
        due_ms = self._deadline_ms
        if self.struck_by is None and due_ms is not None and due_ms <= now_ms:
            self._deadline_ms = None
            return DeadlinePassed(at_ms=now_ms)
        return None

    def strikes(self, entry: CancelRequested | DeadlinePassed) -> bool:
        """Whether this one, which enters the body now, is the first."""
        is_first = self.struck_by is None
        if is_first:
            self.struck_by = RunStatus.cancelled if isinstance(entry, CancelRequested) else RunStatus.failed
            self._give_up_ms = max(entry.at_ms, self._resumed_ms) + self._unwind_ms
        return is_first
