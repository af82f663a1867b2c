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


class OpKind(StrEnum):
    """The kinds of durable operations."""

    step = "step"


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
    """An operation gave a value."""

    op: Op
    at_ms: int
    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An operation gave up."""

    op: Op
    at_ms: int
    error: ErrorRecord


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
class CancelRequested:
    """Somebody cancelled the run: `CancelledError` enters the body here."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePassed:
    """The workflow's `timeout=` is over: `CancelledError` enters the body here and the run fails."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """An operator sent the ended run on; the entries from `void_from` up to this one no longer count."""

    at_ms: int
    void_from: int


OpEntry = Completed | Failed | Withdrawn | AttemptFailed
ReplayedEntry = OpEntry | CancelRequested | DeadlinePassed
Entry = ReplayedEntry | Requeued


def in_force(journal: Sequence[Entry]) -> list[tuple[int, ReplayedEntry]]:
    """The entries that still count, each with its position.

    A `Requeued` voids what it says, and with it the failed attempts of operations that have no outcome before that:
    they are tried anew, with their whole number of attempts.
    """
    kept: list[tuple[int, ReplayedEntry]] = []
    for position, entry in enumerate(journal):
        if isinstance(entry, Requeued):
            kept = [pair for pair in kept if pair[0] < entry.void_from]
            settled = {each.op.op_id for _, each in kept if isinstance(each, Completed | Failed | Withdrawn)}
            kept = [pair for pair in kept if not isinstance(pair[1], AttemptFailed) or pair[1].op.op_id in settled]
        else:
            kept.append((position, entry))
    return kept


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
