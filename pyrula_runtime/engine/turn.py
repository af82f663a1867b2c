"""One turn: from a claim to the moment the run ends, waits or is handed back.

The order of things, which is the whole of durability:
1. The journal is replayed through the body (core.cursor), entry by entry, each when the body is parked.
2. What the body then asks for is performed, but only when every entry it has seen is committed: nothing happens in
   the world on the strength of something that a crash could take back.
3. An outcome enters the body at once, before it is committed, because a body can do nothing in the world but ask. So
   the entries of one stretch of the body, and its ending, go into one commit.

A turn in which nothing is left to do but to wait ends there, or soon (engine.resting): the body is unwound, without a
trace, and the last commit says what the run waits for. So a run that waits costs no worker anything.

A commit refused by the fence ends the turn without a trace: another worker has the run. All of this happens on the
lane's thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from pyrula_runtime.core.cursor import Asked, Cursor
from pyrula_runtime.core.entries import AttemptFailed, Completed, Entry, Failed, Op, OpEntry, Withdrawn
from pyrula_runtime.core.errors import BodyStuck, CodecFailed, JournalMismatch, LimitExceeded
from pyrula_runtime.core.waiting import child_letters, given_back
from pyrula_runtime.engine import endings
from pyrula_runtime.engine.blows import Blows
from pyrula_runtime.engine.entrance import Entrance
from pyrula_runtime.engine.host import Host, Performing
from pyrula_runtime.engine.journaling import Journaling, Last, storable
from pyrula_runtime.engine.kin import Kin
from pyrula_runtime.engine.marks import Marks
from pyrula_runtime.engine.performances import Performances
from pyrula_runtime.engine.probation import Probation
from pyrula_runtime.engine.program import ChildCall, EmitCall, Program, Request, StepCall, TellCall, WaitCall
from pyrula_runtime.engine.resting import Resting
from pyrula_runtime.engine.store_time import StoreTime
from pyrula_runtime.engine.waits import Waits
from pyrula_runtime.stores.protocol import Claim, Committed, Ending, Received

_STUCK = (
    "the workflow waits for something that no durable operation brings (an asyncio event, queue or future that nothing "
    "sets), so nothing could ever wake it; wait for durable operations instead"
)


class Turn:
    """The state of one claimed run on a lane (also its body's BodyPort)."""

    def __init__(self, claim: Claim, program: Program, journal: Sequence[Entry], host: Host) -> None:
        self.claim = claim
        self.program = program
        self.run_id = claim.token.run_id
        self.root = "" if claim.generation == 1 else str(claim.generation)
        self.is_over = False
        self._host = host
        self._cursor = Cursor(journal)
        self.store_ms = StoreTime(claim.now_ms, host.mono_ms)
        self._requests: dict[str, Request] = {}
        self._coming: deque[Entry] = deque()  # what steps have to tell
        self._steps = Performances(self._perform)
        self._last: Last | None = None
        self._fault: Exception | None = None
        self._waits = Waits(given_back(journal), claim.inbox, claim.inbox_len, skipped=claim.inbox_skipped)
        self._blows = Blows(claim, program, journal, self._cursor)
        began_ms = self._cursor.began_ms or claim.started_ms
        self._entrance = Entrance(began_ms, self._cursor, self._blows, self._requests)
        self._resting = Resting(
            claim.now_ms, self._waits, self._blows, self._steps, self._look_again, short_ms=host.short_ms
        )
        self._probation = Probation(claim)
        self._journal = Journaling(claim, host, self)
        self._kin = Kin(claim, journal, self._requests, host)
        self.marks = Marks(self._cursor, self._journal, self._record, self._fail, self.store_ms)
        self._body = host.make_body(self)

    # life

    def begin(self) -> None:
        """Start the body and replay what is recorded."""
        # an empty journal would not do: a worker may have died in the first step, and what it did wants compensation
        no_code_ran = self.claim.token.fence == 1
        if no_code_ran and self.claim.cancel_requested:
            self._end(endings.cancelled())
            self._flush()
            return
        self._body.start()
        self.parked()

    def cancel(self) -> None:
        """The run's cancellation was requested."""
        self._blows.request_cancel()
        self.parked()

    @property
    def is_ending(self) -> bool:
        """Whether nothing is left to do but the last commit, whose answer tells what became of the run."""
        return self._last is not None

    @property
    def waits_for(self) -> list[Op]:
        """The operations whose outcome the body waits for; after the turn, those that it waited for last."""
        return self._cursor.wanted()

    def suspend(self) -> None:
        """End the turn here and now, without a trace: whoever claims the run next goes on from the last commit."""
        if not self.is_over:
            self._stop()
            self._body.suspend()

    # what the body reports (BodyPort)

    @property
    def replaying(self) -> bool:
        return self._cursor.replaying

    def now_ms(self) -> int:
        return self._entrance.now_ms

    def asked(self, op: Op, request: Request) -> bool:
        if self.is_over or self._fault is not None:
            return False
        try:
            self._cursor.ask(op, self._entrance.now_ms)
        except JournalMismatch as mismatch:
            self._fault = mismatch
            return False
        self._requests[op.op_id] = request
        if isinstance(request, ChildCall):
            self._kin.expect(self._cursor.asked(op))
        return True

    def child_id(self, op: Op) -> str:
        return self._kin.child_id(op)

    def withdrew(self, op: Op) -> None:
        self._steps.stop(op.op_id)
        self._waits.end(op.op_id)
        if self._cursor.withdraw(op):
            self._record(Withdrawn(op=op, at_ms=self.store_ms()))

    def parked(self) -> None:
        if not self.is_over and self._body.is_parked:
            self._pump()

    def ended(self, value: object, error: BaseException | None) -> None:
        try:
            self._cursor.check_ended()
            self._take_up(self._cursor.take_unperformed())  # what it began and did not wait for
            for entry in self._coming:
                if isinstance(entry, Completed) and entry.op.kind.is_over_when_written:
                    self._record(entry)
            blow = self._blows.struck_by
            self._end(endings.by_body(self.program, self._host.payloads, blow, value, error))
        except (JournalMismatch, CodecFailed) as fault:
            self._fault = fault

    # what performed steps report

    def settled(self, outcome: Completed | Failed) -> None:
        """A step has its outcome."""
        self._steps.over(outcome.op.op_id)
        self._receive(outcome)

    def attempt_failed(self, entry: AttemptFailed) -> None:
        """A step failed and will be tried again."""
        self._receive(entry)

    # messages

    def heard(self, inbox_len: int) -> None:
        """So many messages ever came for the run."""
        self._waits.tell(inbox_len)
        self.parked()

    def letters(self, page: Sequence[Received]) -> None:
        """What the host has found in the inbox."""
        self._waits.bring(page)
        self.parked()

    # the gate

    def _receive(self, entry: Entry) -> None:
        if self.is_over or self._last is not None:
            return
        self._coming.append(entry)
        if self._body.is_parked:
            self._pump()

    def _pump(self) -> None:
        """Let entries in, one at a time, as long as the body is parked; then write and perform what came of it."""
        try:
            while self._body.is_parked and self._fault is None and self._last is None and not self.is_over:
                if self._cursor.replaying:
                    entry = self._cursor.replay_next()
                    self._probation.passes(entry)
                    self._entrance.let_in(entry, self._body)
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
        if self._last is not None or self._body.is_parked:
            self._flush()
        else:  # its thread is in the user's code, and may stay there
            self._resting.await_blow(self.store_ms())

    def _let_in_next_live(self) -> bool:
        for op in self._cursor.finish_replay():
            self._record(Withdrawn(op=op, at_ms=self.store_ms()))
        self._resting.stay.caught_up(self.store_ms())
        self._take_up(self._cursor.take_unperformed())
        entry = self._next_entry()
        if entry is not None:
            self._resting.stay.moved()
            self._entrance.let_in(self._record(entry), self._body)
        return entry is not None

    def _take_up(self, taken: Sequence[Asked]) -> None:
        """See to it that what the body has asked for gets its outcome."""
        steps = []
        for asked in taken:
            match self._requests[asked.op.op_id]:
                case StepCall():
                    steps.append(asked)
                case WaitCall() as call:
                    self._waits.begin(asked, call)
                case ChildCall() as call:
                    if asked.started is None:
                        self._record(self._kin.start(asked.op, call, self.store_ms()))
                    self._waits.hear(asked.op, child_letters(self._kin.child_id(asked.op)))
                case TellCall() | EmitCall():
                    self._coming.append(Completed(op=asked.op, at_ms=self.store_ms(), value=None))
        self._steps.add(steps, self._cursor.length)
        self._probation.begins(asked.op.op_id for asked in steps)

    def _next_entry(self) -> Entry | None:
        """What is to be recorded next, if anything has come."""
        while self._coming:
            entry = self._coming.popleft()
            if not isinstance(entry, OpEntry) or self._cursor.is_open(entry.op):
                return entry  # else the body withdrew it while the outcome was on its way
        now_ms = self.store_ms()
        return self._blows.next(now_ms) or self._waits.next(now_ms)

    # writing

    def _record(self, entry: Entry) -> Entry:
        """Put an entry at the journal's end (uncommitted yet); what is too large becomes a failure that says so."""
        try:
            entry, raw = storable(entry, self._host.payloads)
            message = entry.message if isinstance(entry, Completed | Failed) else 0
            self._journal.add(raw, consumed=message, effects=self._kin.effects_of(entry))
        except (LimitExceeded, CodecFailed) as fault:
            self._fail(fault)
        self._cursor.append(entry)
        if self._fault is not None:
            return entry
        if self._probation.passes(entry):
            self._is_cleared()
        return entry

    def _fail(self, fault: Exception) -> None:
        self._fault = self._fault or fault

    def _is_cleared(self) -> None:
        """Nothing is held against the run any more, from the next commit on."""
        self._journal.dossier = self._probation.end() or self._journal.dossier

    def _flush(self) -> None:
        """Send what is not committed; start what may start; or end the turn if there is nothing to do but to wait."""
        if self.is_over:
            return
        if self._last is None:
            self._rest()
        if self._last is not None and self._last.ending.status.is_terminal:
            self._is_cleared()
        self._journal.flush(self._last)
        if self._last is None:
            self._steps.begin(self._journal.committed)

    def _rest(self) -> None:
        """End the turn if nothing but time or a message can bring the run on; while it goes on, look again in time."""
        if self._blows.is_overdue(self.store_ms()):
            self._give_up()
            return
        if (after_seq := self._waits.read_on()) is not None:
            self._host.read_inbox(self, after_seq)
        if self._resting.ends(self.store_ms(), is_idle=self._only_waits(), in_haste=self._host.in_haste):
            due_ms = self._resting.due_ms
            self._body.suspend()
            self._end(endings.suspended(due_ms, self._waits, cancel_seen=self._blows.cancel_taken))

    def _look_again(self) -> None:
        """It is time for something; what is overdue is given up though a thread of it may be in the user's code."""
        if self._last is None and self._blows.is_overdue(self.store_ms()):
            self._flush()
        else:
            self.parked()

    def _give_up(self) -> None:
        self.note(logging.WARNING, "the run still unwinds after %g s and is given up", self.program.cancel_within_s)
        self._body.suspend()
        self._end(endings.given_up(self.program, self._blows.struck_by))

    def _only_waits(self) -> bool:
        is_busy = self._steps.are_busy or self._coming or self._journal.is_writing
        return self._body.is_parked and not (is_busy or self._waits.is_reading or self._cursor.replaying)

    def written(self, ending: Ending | None, reply: Committed, *, claimed: bool) -> None:
        if ending is not None:
            self._stop()
            self._host.over(self, reply.claims if claimed else None)
            return
        self._waits.tell(reply.inbox_len)
        self._resting.stay.moved()
        if reply.cancel_requested:
            self.cancel()
        if self._host.replay == "always" and self._can_be_replayed():
            self._host.again(self)
        else:
            self._flush()

    def _can_be_replayed(self) -> bool:
        """Whether this turn has brought the run on, and nothing is under way or unwritten that would be done again."""
        has_grown = self._journal.committed > self.claim.journal_len
        is_at_rest = self._steps.are_resting and self._journal.is_settled and self._body.is_parked
        return has_grown and is_at_rest and not (self._coming or self._last or self.is_over)

    def refused(self, reason: str) -> None:
        self.suspend()
        self._host.lost(self, reason)

    def broken(self, error: Exception) -> None:
        self.suspend()
        self._host.broken(self, error)

    def note(self, level: int, message: str, *args: object) -> None:
        self._host.note(self, level, message, *args)

    def _perform(self, asked: Asked) -> Performing:
        call = self._requests[asked.op.op_id]
        assert isinstance(call, StepCall)
        return self._host.perform(self, asked, call)

    # ending

    def _end_by_fault(self, fault: Exception) -> None:
        """The body unwinds, and the run pauses or fails."""
        self._coming.clear()
        self._body.suspend()
        self._end(endings.by_fault(fault))
        self._fault = None

    def _end(self, ending: Ending) -> None:
        ending, effects = self._kin.part(ending)
        self._last = Last(ending=ending, consumed=self._waits.take_strays(ending), effects=effects)
        self._stop_steps()

    def _stop_steps(self) -> None:
        self._steps.stop_all()
        self._resting.stop()

    def _stop(self) -> None:
        self.is_over = True
        self._stop_steps()
