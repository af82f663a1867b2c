"""What a journal is made of: one frozen value for each thing that can enter a workflow's body.

A journal is the ordered record of everything that came into the body from outside: outcomes of operations, failed
attempts on the way to one, operations the body itself withdrew, and the events that strike the run as a whole. The
body is a pure function of its input and this order. Values are JSON trees; nothing here knows how they are encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.errors import Json as Json
from pyrula_runtime.core.tree import OnEnd


class OpKind(StrEnum):
    """The kinds of durable operations.

    A step is performed. Sleeps, signals, children and timeouts wait: nobody performs them. An emitted event and what a
    child is told are over as soon as they are written. A patch is a mark: the body is told at once how it stands.
    """

    step = "step"
    sleep = "sleep"
    signal = "signal"
    child = "child"
    timeout = "timeout"
    patch = "patch"
    emit = "emit"
    tell = "tell"  # to a child: a signal or a cancel

    @property
    def is_over_when_written(self) -> bool:
        """Whether nobody performs it and nothing comes back."""
        return self in (OpKind.emit, OpKind.tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A durable operation as the body asked for it: its identity in the run, what it is, what people call it."""

    op_id: str
    kind: OpKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} ({self.op_id})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """An operation gave a value. `message` is the number of the message that brought it (0: none did)."""

    op: Op
    at_ms: int
    value: Json
    message: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An operation gave up. `message` is the number of the message that told so (0: none did)."""

    op: Op
    at_ms: int
    error: ErrorRecord
    message: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """The body cancelled an operation before it had an outcome."""

    op: Op
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """Attempt `number` (from 1) of an operation failed; it is tried again at `retry_at_ms`."""

    op: Op
    at_ms: int
    number: int
    error: ErrorRecord
    retry_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The run `child_id` was started for an operation, in the same write; its outcome comes as a message."""

    op: Op
    at_ms: int
    child_id: str
    on_end: OnEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Somebody cancelled the run: `CancelledError` enters the body here."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePassed:
    """The workflow's `timeout=` is over: `CancelledError` enters the body here and the run fails."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """An operator sent the run on; the entries from `void_from` up to this one no longer count.

    If it `has_ended`, the children that end with it have been cancelled.
    """

    at_ms: int
    void_from: int
    has_ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """An operator let the run go on that was paused: until then no time of its own has passed."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """What stands before this, as far as another `Forked`, was recorded by the run `source`, first claimed then."""

    at_ms: int
    source: str
    started_ms: int


OpEntry = Completed | Failed | Withdrawn | AttemptFailed | Started
ReplayedEntry = OpEntry | CancelRequested | DeadlinePassed
Entry = ReplayedEntry | Requeued | Resumed | Forked


def is_own_doing(entry: Entry) -> bool:
    """Whether the body itself brought this about: it is on record for replays, and does not come in from outside."""
    return isinstance(entry, Withdrawn | Started) or (isinstance(entry, Completed) and entry.op.kind is OpKind.patch)


def in_force(journal: Sequence[Entry]) -> list[tuple[int, ReplayedEntry]]:
    """The entries that still count, each with its position.

    A `Requeued` voids what it says, and with it the failed attempts of operations that have no outcome before that:
    they are tried anew, with their whole number of attempts. The start of a child goes with its voided failure, or when
    the child was cancelled because the run gave it up or ended, so that another one is started. One that completed is
    not: its outcome comes again (waiting.given_back).
    """
    kept: list[tuple[int, ReplayedEntry]] = []
    for position, entry in enumerate(journal):
        if isinstance(entry, Requeued):
            voided = [each for at, each in kept if at >= entry.void_from]
            kept = [pair for pair in kept if pair[0] < entry.void_from]
            settled = {each.op.op_id for _, each in kept if isinstance(each, Completed | Failed | Withdrawn)}
            gone = _gone(entry, voided, [each for _, each in kept], settled)
            kept = [pair for pair in kept if not _is_undone(pair[1], settled, gone)]
        elif not isinstance(entry, Resumed | Forked):
            kept.append((position, entry))
    return kept


def _gone(
    requeue: Requeued, voided: Sequence[ReplayedEntry], kept: Sequence[ReplayedEntry], settled: set[str]
) -> set[str]:
    """The operations whose child will not complete any more."""
    failed, withdrawn, completed = (
        {each.op.op_id for each in voided if isinstance(each, kind)} for kind in (Failed, Withdrawn, Completed)
    )
    cancelled = withdrawn
    if requeue.has_ended:
        cancelled |= {each.op.op_id for each in kept if isinstance(each, Started)} - settled - completed
    bound = {each.op.op_id for each in kept if isinstance(each, Started) and each.on_end is OnEnd.cancel}
    return failed | (cancelled & bound)


def _is_undone(entry: ReplayedEntry, settled: set[str], gone: set[str]) -> bool:
    if isinstance(entry, AttemptFailed):
        return entry.op.op_id not in settled
    return isinstance(entry, Started) and entry.op.op_id in gone


def begun_anew(journal: Sequence[Entry]) -> dict[str, int]:
    """Operations whose outcome an operator voided, and when: what they wait for is counted from there."""
    anew: dict[str, int] = {}
    outcomes: list[tuple[int, str]] = []
    for position, entry in enumerate(journal):
        if isinstance(entry, Requeued):
            anew |= {op_id: entry.at_ms for at, op_id in outcomes if at >= entry.void_from}
        elif isinstance(entry, Completed | Failed):
            outcomes.append((position, entry.op.op_id))
    return anew


def requeue_from(journal: Sequence[Entry], failed_op: str | None) -> int:
    """Where a requeued run goes on: at the operation whose failure ended it, or at the journal's end.

    Everything recorded from that failure on is done again, because it was recorded in the light of it. A run that a
    cancel or deadline unwound goes on from there. Withdrawals at the journal's end are done again as well: a body that
    breaks cancels what it was waiting for, and its mended code will not. Only entries in force are looked at.
    """
    counting = in_force(journal)
    for position, entry in counting:
        if isinstance(entry, CancelRequested | DeadlinePassed):
            return position
        if isinstance(entry, Failed) and entry.op.op_id == failed_op:
            return position
    end = len(journal)
    for position, entry in reversed(counting):
        if not isinstance(entry, Withdrawn):
            break
        end = position
    return end
