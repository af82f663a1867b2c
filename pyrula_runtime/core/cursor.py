"""Replay: how a body that starts from the top meets what its journal already holds.

Model. The body runs until it is parked: nothing in it can go on without an outcome from outside. Then exactly one
entry enters it, in journal order, and it runs until parked again. Live and replayed turns share this gate, so the body
cannot tell them apart: it is called with the same values in the same order and asks for the same operations.

Identity, not order of asking, ties an operation to its entries: branch, name and count there (`core.ids.Branch`). Two
steps that swap places without depending on each other still match; a step that was renamed, dropped or put before one
that is recorded does not.

The cursor answers each operation the body asks for with one of three words: `recorded` (its outcome comes when its
place in the journal comes), `perform` (nobody has its outcome: do it, or wait for it, under this id), or it raises
`JournalMismatch`.
What must be performed is given out only when everything recorded has been replayed: a mismatch is found before
anything is done in the world. An entry whose operation the body has not asked for when the entry's turn has come is
a mismatch, because a parked body will never ask for it without that very entry.

Withdrawal. A body may cancel an operation. That is the body's own doing and repeats itself in a replay; it is journaled
so that people see it and so that a replay can tell when changed code no longer does it.

Marks. A patch needs nobody: it is on record as soon as the body asks for it. One that is not, at a place that replay
passes, was put there by changed code: it is `passed`. One on record that the code asks for no more is let be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pyrula_runtime.core.entries import (
    AttemptFailed,
    CancelRequested,
    Completed,
    DeadlinePassed,
    Entry,
    Failed,
    Forked,
    Op,
    OpEntry,
    OpKind,
    ReplayedEntry,
    Started,
    Withdrawn,
    begun_anew,
    in_force,
)
from pyrula_runtime.core.errors import JournalMismatch
from pyrula_runtime.core.mismatch import Parting


class Answer(Enum):
    """What the journal says to an operation that the body asks for."""

    recorded = "recorded"
    perform = "perform"
    passed = "passed"  # of a mark: what follows is on record without it


@dataclass(slots=True)
class Asked:
    """An operation the body has asked for, and how far it is."""

    op: Op
    attempts: int = 0  # failed ones on record
    retry_at_ms: int = 0  # not before, from the last failed attempt
    settled: bool = False  # an outcome or a withdrawal has been applied
    withdrawn: bool = False  # the body does not want the outcome any more
    at_ms: int = 0  # the body's time when it asked, or when an operator had it begin anew
    starts: int = 0  # how many children were ever started for it, voided ones too
    started: Started | None = None  # the child that counts


class Cursor:
    """Where a turn stands between what is recorded and what is new."""

    def __init__(self, journal: Sequence[Entry]) -> None:
        """Begin before the first entry of `journal`, the whole of it as stored."""
        self.length = len(journal)
        self._recorded = in_force(journal)
        self._next = 0
        self._asked: dict[str, Asked] = {}
        self._unperformed: list[Asked] = []
        self._outcomes = {e.op.op_id: e.op for _, e in self._recorded if isinstance(e, Completed | Failed | Withdrawn)}
        self._started = {e.op.op_id: e for _, e in self._recorded if isinstance(e, Started)}
        self._starts = Counter(e.op.op_id for e in journal if isinstance(e, Started))
        self._anew = begun_anew(journal)
        self._forks = [
            (sum(position < at for position, _ in self._recorded), entry)
            for at, entry in enumerate(journal)
            if isinstance(entry, Forked)
        ]
        self._withdrawals: list[Op] = []  # made during replay, not on record
        self._wanted: set[str] = set()  # operations asked for, neither settled nor withdrawn

    @property
    def replaying(self) -> bool:
        """Whether recorded entries are still to be applied."""
        return self._next < len(self._recorded)

    def run_here(self, run_id: str) -> str:
        """The run whose UUIDs and chances the body of this run gets here: while it goes over a copy, who wrote that."""
        return next((fork.source for copied, fork in self._forks if self._next < copied), run_id)

    @property
    def began_ms(self) -> int | None:
        """When the run was first claimed whose journal begins this one, if it is a copy."""
        return self._forks[0][1].started_ms if self._forks and self._forks[0][0] else None

    def on_record(self, kind: type[CancelRequested] | type[DeadlinePassed]) -> bool:
        """Whether such a blow to the whole run is recorded already."""
        return any(isinstance(entry, kind) for _, entry in self._recorded)

    def ask(self, op: Op, at_ms: int = 0) -> Answer:
        """The body asks for an operation. Raises JournalMismatch if the journal has another kind under this id."""
        recorded = self._match(op)
        asked = self._note(op, at_ms)
        self._wanted.add(op.op_id)
        if recorded:
            return Answer.recorded
        self._unperformed.append(asked)
        return Answer.perform

    def mark(self, op: Op) -> Answer:
        """The body asks for a mark. Raises JournalMismatch as `ask` does; what is to be performed is to be appended."""
        recorded = self._match(op)
        if self.replaying and not recorded:
            return Answer.passed
        self._note(op, 0)
        return Answer.recorded if recorded else Answer.perform

    def asked(self, op: Op) -> Asked:
        """How far an operation is that was asked for."""
        return self._asked[op.op_id]

    def withdraw(self, op: Op) -> bool:
        """The body cancels an operation; True if that is to be appended to the journal now.

        During replay the answer is False: what is missing on record comes out of `finish_replay`.
        """
        asked = self._asked[op.op_id]
        if asked.settled or asked.withdrawn:
            return False
        asked.withdrawn = True
        self._wanted.discard(op.op_id)
        if op.op_id in self._outcomes:
            return False
        if self.replaying:
            self._withdrawals.append(op)
            return False
        return True

    def replay_next(self) -> ReplayedEntry:
        """Apply the next recorded entry; the body is parked. Raises JournalMismatch if the code no longer fits it."""
        position, entry = self._recorded[self._next]
        self._check(position, entry)
        self._next += 1
        self._apply(entry)
        return entry

    def append(self, entry: Entry) -> None:
        """Apply an entry that is new: it takes the next place in the journal."""
        self.length += 1
        self._apply(entry)

    def wants(self, op: Op) -> bool:
        """Whether the body still waits for this operation's outcome."""
        return not self._asked[op.op_id].withdrawn

    def is_open(self, op: Op) -> bool:
        """Whether the operation has neither outcome nor withdrawal on record."""
        return not self._asked[op.op_id].settled

    def waits(self) -> bool:
        """Whether any operation is open whose outcome the body wants: else nothing can wake a parked body."""
        return bool(self._wanted)

    def wanted(self) -> list[Op]:
        """The open operations whose outcome the body wants, in the order of asking."""
        return [asked.op for asked in self._asked.values() if asked.op.op_id in self._wanted]

    def take_unperformed(self) -> list[Asked]:
        """The operations to perform that were not given out yet, in the order of asking; nothing during replay."""
        if self.replaying:
            return []
        taken = [asked for asked in self._unperformed if not asked.withdrawn]
        self._unperformed.clear()
        return taken

    def finish_replay(self) -> list[Op]:
        """Withdrawals the body made during replay that are not on record yet: append them now."""
        made, self._withdrawals = self._withdrawals, []
        return made

    def check_ended(self) -> None:
        """The body has ended: what is left on record must at least have been asked for; JournalMismatch otherwise.

        It is replayed by that: what the body has asked for beyond it can be taken.
        """
        for position, entry in self._recorded[self._next :]:
            if isinstance(entry, OpEntry) and entry.op.op_id not in self._asked and entry.op.kind is not OpKind.patch:
                raise self._parting(position, entry.op).ended()
            self._next += 1
            self._apply(entry)

    def _match(self, op: Op) -> bool:
        """Whether the operation's outcome is recorded; JournalMismatch if it is another one's."""
        started = self._started.get(op.op_id)
        recorded = self._outcomes.get(op.op_id)
        for known in (recorded, started and started.op):
            if known is not None and known != op:
                raise JournalMismatch(f"the journal has {known} where the code now asks for {op}")
        return recorded is not None

    def _note(self, op: Op, at_ms: int) -> Asked:
        # what a fork has not copied begins with the fork, however old the body's time is there
        forked_ms = self._forks[-1][1].at_ms if self._forks and op.op_id not in self._outcomes else 0
        asked = self._asked[op.op_id] = Asked(op, at_ms=max(at_ms, forked_ms, self._anew.get(op.op_id, 0)))
        if op.kind is OpKind.child:
            asked.starts, asked.started = self._starts[op.op_id], self._started.get(op.op_id)
        return asked

    def _check(self, position: int, entry: ReplayedEntry) -> None:
        if isinstance(entry, CancelRequested | DeadlinePassed):
            return
        asked = self._asked.get(entry.op.op_id)
        if asked is None and entry.op.kind is OpKind.patch:
            return  # the code has done with the old way: it no longer asks
        if asked is None or asked.op != entry.op:
            raise self._parting(position, entry.op).asks(self.wanted(), self._known())
        if isinstance(entry, Withdrawn) and not asked.withdrawn:
            raise self._parting(position, entry.op).waits()

    def _parting(self, position: int, op: Op) -> Parting:
        return Parting(position, op, [entry for _, entry in self._recorded[: self._next]])

    def _known(self) -> set[str]:
        return {entry.op.op_id for _, entry in self._recorded if isinstance(entry, OpEntry)}

    def _apply(self, entry: Entry) -> None:
        match entry:
            case Completed() | Failed() | Withdrawn():
                if (settled := self._asked.get(entry.op.op_id)) is not None:  # None: a patch the code forgot
                    settled.settled = True
                self._wanted.discard(entry.op.op_id)
            case Started():
                self._asked[entry.op.op_id].started = entry
            case AttemptFailed():
                asked = self._asked[entry.op.op_id]
                asked.attempts, asked.retry_at_ms = entry.number, entry.retry_at_ms
            case _:
                pass  # strikes the run as a whole: nothing to note for any one operation
