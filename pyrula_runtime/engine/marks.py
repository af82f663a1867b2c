"""What a body is told, or tells, at once, without waiting for an outcome: patches, its status, whose ids it gets.

None of it comes in from outside, so none of it enters the body by the gate: a patch is recorded where the body asks for
it, and a status is shown only while the body does what it has not done before.
"""

from __future__ import annotations

from collections.abc import Callable

from pyrula_runtime.core.cursor import Answer, Cursor
from pyrula_runtime.core.entries import Completed, Entry, Op
from pyrula_runtime.core.errors import CodecFailed, JournalMismatch
from pyrula_runtime.engine.journaling import Journaling


class Marks:
    """One turn's; to be used by its body, on the lane's thread."""

    def __init__(
        self,
        cursor: Cursor,
        journal: Journaling,
        record: Callable[[Entry], object],
        fail: Callable[[Exception], None],
        now_ms: Callable[[], int],
    ) -> None:
        """`record` puts an entry at the journal's end, `fail` says why the turn cannot go on; `now_ms` by the store."""
        self._cursor = cursor
        self._journal = journal
        self._record = record
        self._fail = fail
        self._now_ms = now_ms

    def run_here(self, run_id: str) -> str:
        """The run whose UUIDs and chances the body of this run gets."""
        return self._cursor.run_here(run_id)

    def patched(self, op: Op) -> bool | None:
        """Whether this patch is, or from now on will be, on record; None if the code does not fit."""
        try:
            answer = self._cursor.mark(op)
        except JournalMismatch as mismatch:
            self._fail(mismatch)
            return None
        if answer is Answer.perform:
            self._record(Completed(op=op, at_ms=self._now_ms(), value=None))
        return answer is not Answer.passed

    def show(self, document: bytes) -> None:
        """The body has set its status."""
        try:
            if not self._cursor.replaying:
                self._journal.show(document)
        except CodecFailed as fault:
            self._fail(fault)
