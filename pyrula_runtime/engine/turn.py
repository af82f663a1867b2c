"""One turn: from a claim to the moment the run ends, waits or is handed back.

The order of things, which is the whole of durability:
1. The journal is replayed through the body (core.cursor), entry by entry, each when the body is parked.
2. What the body then asks for is performed, but only when every entry it has seen is committed: nothing happens in
   the world on the strength of something that a crash could take back.
3. An outcome enters the body at once, before it is committed, because a body can do nothing in the world but ask. So
   the entries of one stretch of the body, and its ending, go into one commit.

A commit refused by the fence ends the turn without a trace: another worker has the run. All of this happens on the
lane's thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pyrula_runtime.core.cursor import Asked, Cursor
from pyrula_runtime.core.entries import (
    AttemptFailed,
    CancelRequested,
    Completed,
    DeadlinePassed,
    Entry,
    Failed,
    Op,
    OpEntry,
    Requeued,
    Withdrawn,
)
from pyrula_runtime.core.errors import (
    BodyStuck,
    ErrorRecord,
    InputError,
    JournalMismatch,
    LimitExceeded,
    RunTimeout,
    StepFailed,
    StepTimeout,
)
from pyrula_runtime.core.limits import entry_fault
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.body import Body
from pyrula_runtime.engine.codec import dump_entry, dump_error, dump_json
from pyrula_runtime.engine.failure import record_of
from pyrula_runtime.engine.journaling import Desk, Journaling
from pyrula_runtime.engine.probation import Probation
from pyrula_runtime.engine.program import Program, StepCall
from pyrula_runtime.stores.protocol import Claim, Committed, Ending

_STUCK = (
    "the workflow waits for something that no durable operation brings (an asyncio event, queue or future that nothing "
    "sets), so nothing could ever wake it; wait for steps instead"
)


class Performing(Protocol):
    """A step being performed for a turn."""

    def stop(self) -> None:
        """Nobody wants its outcome any more."""


class Host(Desk, Protocol):
    """What a turn needs of its lane."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds."""

    def make_body(self, turn: Turn) -> Body:
        """The body of the turn's program."""

    def perform(self, turn: Turn, asked: Asked, call: StepCall) -> Performing:
        """Begin a step."""

    def over(self, turn: Turn, claims: Sequence[Claim] | None) -> None:
        """The turn ended by itself; `claims` came with its last commit (None: none were asked for)."""

    def lost(self, turn: Turn, reason: str) -> None:
        """The turn's lock is gone."""

    def broken(self, turn: Turn, error: Exception) -> None:
        """The turn's run cannot be written any more: it is to be paused until somebody looks."""

    def note(self, turn: Turn, level: int, message: str, *args: object) -> None:
        """Log a line with the run's fields."""


class Turn:
    """The state of one claimed run on a lane (also its body's BodyPort)."""

    def __init__(self, claim: Claim, program: Program, journal: Sequence[Entry], host: Host) -> None:
        self.claim = claim
        self.program = program
        self.run_id = claim.token.run_id
        self.is_over = False
        self._host = host
        self._cursor = Cursor(journal)
        self._now_ms = claim.started_ms
        # the workflow's timeout counts from here: a requeue gives the whole of it again
        self._from_ms = max([claim.started_ms, *(entry.at_ms for entry in journal if isinstance(entry, Requeued))])
        self._calls: dict[str, StepCall] = {}
        self._inbox: deque[Entry] = deque()
        self._to_start: deque[tuple[int, Asked]] = deque()
        self._performing: dict[str, Performing] = {}
        self._ending: Ending | None = None
        self._fault: Exception | None = None
        self._struck_by: RunStatus | None = None
        self._cancel_taken = self._cursor.on_record(CancelRequested)
        self._timer: asyncio.TimerHandle | None = None
        self._probation = Probation.of(claim)
        self._journal = Journaling(claim, host, self)
        self._body = host.make_body(self)

    # life

    def begin(self) -> None:
        """Start the body and replay what is recorded."""
        # an empty journal would not do: a worker may have died in the first step, and what it did wants compensation
        no_code_ran = self.claim.token.fence == 1
        if no_code_ran and self.claim.cancel_requested:
            self._end(RunEvent.cancelled)
            self._flush()
            return
        self._body.start()
        if self._body.is_parked:
            self._pump()

    def cancel(self) -> None:
        """The run's cancellation was requested."""
        if not self.is_over and not self._cancel_taken:
            self._take_cancel()
            self.parked()

    @property
    def is_ending(self) -> bool:
        """Whether nothing is left to do but the last commit, whose answer tells what became of the run."""
        return self._ending is not None

    def suspend(self) -> None:
        """End the turn here and now, without a trace: whoever claims the run next goes on from the last commit."""
        if self.is_over:
            return
        self._stop()
        self._body.suspend()

    # what the body reports (BodyPort)

    @property
    def replaying(self) -> bool:
        return self._cursor.replaying

    def now_ms(self) -> int:
        return self._now_ms

    def asked(self, op: Op, call: StepCall) -> bool:
        if self.is_over or self._fault is not None:
            return False
        try:
            self._cursor.ask(op)
        except JournalMismatch as mismatch:
            self._fault = mismatch
            return False
        self._calls[op.op_id] = call
        return True

    def withdrew(self, op: Op) -> None:
        performing = self._performing.pop(op.op_id, None)
        if performing is not None:
            performing.stop()
        if self._cursor.withdraw(op):
            self._record(Withdrawn(op=op, at_ms=self._host.now_ms()))

    def parked(self) -> None:
        if not self.is_over and self._body.is_parked:
            self._pump()

    def ended(self, value: object, error: BaseException | None) -> None:
        try:
            self._cursor.check_ended()
        except JournalMismatch as mismatch:
            self._fault = mismatch
            return
        if error is None:
            self._end_with_value(value)
        elif isinstance(error, asyncio.CancelledError) and self._struck_by is RunStatus.cancelled:
            self._end(RunEvent.cancelled)
        elif isinstance(error, asyncio.CancelledError) and self._struck_by is RunStatus.failed:
            timeout = RunTimeout(f"the run took longer than its timeout of {self.program.timeout_s} s")
            self._end(RunEvent.fail, error=record_of(timeout))
        else:
            self._end(RunEvent.fail, error=record_of(error))

    # what performed steps report

    def settled(self, outcome: Completed | Failed) -> None:
        """A step has its outcome."""
        self._performing.pop(outcome.op.op_id, None)
        self._receive(outcome)

    def attempt_failed(self, entry: AttemptFailed) -> None:
        """A step failed and will be tried again."""
        self._receive(entry)

    # the gate

    def _receive(self, entry: Entry) -> None:
        if self.is_over or self._ending is not None:
            return
        self._inbox.append(entry)
        if self._body.is_parked:
            self._pump()

    def _pump(self) -> None:
        """Let entries in, one at a time, as long as the body is parked; then write and perform what came of it."""
        try:
            while self._body.is_parked and self._fault is None and self._ending is None and not self.is_over:
                if self._cursor.replaying:
                    entry = self._cursor.replay_next()
                    if self._probation is not None:
                        self._probation.passes(entry)
                    self._let_in(entry)
                elif not self._let_in_next_live():
                    if not self._cursor.waits():
                        self._fault = BodyStuck(_STUCK)
                    break
        except JournalMismatch as mismatch:
            self._fault = mismatch
        if self.is_over:  # evacuated, before its body was to go on
            return
        if self._fault is not None:
            self._end_by_fault(self._fault)
        if self._ending is not None or self._body.is_parked:
            self._flush()

    def _let_in_next_live(self) -> bool:
        for op in self._cursor.finish_replay():
            self._record(Withdrawn(op=op, at_ms=self._host.now_ms()))
        self._arm()
        taken = self._cursor.take_unperformed()
        if self._probation is not None:
            self._probation.begins(asked.op.op_id for asked in taken)
        self._to_start.extend((self._cursor.length, asked) for asked in taken)
        while self._inbox:
            entry = self._inbox.popleft()
            if isinstance(entry, OpEntry) and not self._cursor.is_open(entry.op):
                continue  # the body withdrew it while the outcome was on its way
            entry = self._record(entry)
            self._let_in(entry)
            return True
        return False

    def _arm(self) -> None:
        """Once replay is over: see to a cancel that came while nobody ran the run, and to the deadline."""
        if self._timer is None and self.program.timeout_s is not None and not self._cursor.on_record(DeadlinePassed):
            left_s = (self._from_ms - self._host.now_ms()) / 1000 + self.program.timeout_s
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(left_s, 0), self._deadline_passed)
        if self.claim.cancel_requested and not self._cancel_taken:
            self._take_cancel()

    def _take_cancel(self) -> None:
        self._cancel_taken = True
        self._inbox.append(CancelRequested(at_ms=self._host.now_ms()))

    def _deadline_passed(self) -> None:
        if self._struck_by is None:
            self._receive(DeadlinePassed(at_ms=self._host.now_ms()))

    def _let_in(self, entry: Entry) -> None:
        """One entry enters the body; the body runs until it is parked again or has ended."""
        if not isinstance(entry, Withdrawn):  # the body's own doing: live it does not come in, so it must not move time
            self._now_ms = max(self._now_ms, entry.at_ms)
        match entry:
            case Completed(op=op, value=value) if self._cursor.wants(op):
                call = self._calls[op.op_id]
                try:
                    self._body.deliver(op, call.from_json(value), None)
                except InputError as error:
                    self._body.deliver(op, None, error)
            case Failed(op=op, error=error) if self._cursor.wants(op):
                kind = StepTimeout if error.type == StepTimeout.__name__ else StepFailed
                self._body.deliver(op, None, kind(op.name, error, op.op_id))
            case CancelRequested() if self._struck_by is None:
                self._struck_by = RunStatus.cancelled
                self._body.strike()
            case DeadlinePassed() if self._struck_by is None:
                self._struck_by = RunStatus.failed
                self._body.strike()
            case _:
                pass  # attempts, withdrawals and outcomes nobody waits for do not enter the body

    # writing

    def _record(self, entry: Entry) -> Entry:
        """Put an entry at the journal's end (uncommitted yet); what is too large becomes a failure that says so."""
        raw = dump_entry(entry)
        if isinstance(entry, Completed) and (fault := entry_fault(f"the result of {entry.op}", len(raw))):
            record = ErrorRecord(type=LimitExceeded.__name__, message=fault)
            entry = Failed(op=entry.op, at_ms=entry.at_ms, error=record)
            raw = dump_entry(entry)
        self._cursor.append(entry)
        try:
            self._journal.add(raw)
        except LimitExceeded as full:
            self._fault = self._fault or full
            return entry
        if self._probation is not None and self._probation.passes(entry):
            self._is_cleared()
        return entry

    def _is_cleared(self) -> None:
        """Nothing is held against the run any more, from the next commit on."""
        if self._probation is not None:
            self._journal.dossier, self._probation = self._probation.reward, None

    def _flush(self) -> None:
        """Send what is not committed; start what may start."""
        if not self.is_over:
            if self._ending is not None and self._ending.status.is_terminal:
                self._is_cleared()
            self._journal.flush(self._ending)
            self._start_steps()

    def written(self, ending: Ending | None, reply: Committed, *, claimed: bool) -> None:
        if ending is not None:
            self._stop()
            self._host.over(self, reply.claims if claimed else None)
            return
        if reply.cancel_requested:
            self.cancel()
        self._flush()

    def refused(self, reason: str) -> None:
        self.suspend()
        self._host.lost(self, reason)

    def broken(self, error: Exception) -> None:
        self.suspend()
        self._host.broken(self, error)

    def note(self, level: int, message: str, *args: object) -> None:
        self._host.note(self, level, message, *args)

    def _start_steps(self) -> None:
        while self._to_start and self._to_start[0][0] <= self._journal.committed:
            _, asked = self._to_start.popleft()
            if not asked.withdrawn and self._ending is None:
                call = self._calls[asked.op.op_id]
                self._performing[asked.op.op_id] = self._host.perform(self, asked, call)

    # ending

    def _end_with_value(self, value: object) -> None:
        try:
            raw = dump_json(self.program.to_json(value))
            if (fault := entry_fault("the run's result", len(raw))) is not None:
                raise LimitExceeded(fault)
        except BaseException as error:  # noqa: BLE001 - what makes JSON of it may be the user's code
            told = record_of(error)
            self._end(RunEvent.fail, error=replace(told, message=f"result: {told.message}"))
        else:
            self._end(RunEvent.complete, result=raw)

    def _end_by_fault(self, fault: Exception) -> None:
        """The code does not fit the journal, or the journal is full: the body unwinds and the run pauses or fails."""
        self._inbox.clear()
        self._body.suspend()
        event = RunEvent.mismatch if isinstance(fault, JournalMismatch) else RunEvent.fail
        self._ending = None
        self._end(event, error=ErrorRecord(type=type(fault).__name__, message=str(fault)))
        self._fault = None

    def _end(self, event: RunEvent, *, result: bytes | None = None, error: ErrorRecord | None = None) -> None:
        raw = None if error is None else dump_error(error)
        self._ending = Ending(status=after(RunStatus.running, event), result=result, error=raw)
        self._stop_steps()

    def _stop_steps(self) -> None:
        performing, self._performing = self._performing, {}
        for step in performing.values():
            step.stop()
        self._to_start.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _stop(self) -> None:
        self.is_over = True
        self._stop_steps()
