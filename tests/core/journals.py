"""Journal entries in few words, for tests: an operation is named by its id alone."""

from __future__ import annotations

from pyrula_runtime.core.entries import (
    AttemptFailed,
    CancelRequested,
    Completed,
    DeadlinePassed,
    Failed,
    Json,
    Op,
    OpKind,
    Requeued,
    Started,
    Withdrawn,
)
from pyrula_runtime.core.errors import ErrorRecord
from pyrula_runtime.core.tree import OnEnd

BROKEN = ErrorRecord(type="ValueError", message="broken")


def op(op_id: str) -> Op:
    """The step of this id; its name is what stands before the number."""
    return Op(op_id=op_id, kind=OpKind.step, name=op_id.rpartition("#")[0])


def completed(op_id: str, value: Json = None, at_ms: int = 0) -> Completed:
    return Completed(op=op(op_id), at_ms=at_ms, value=value)


def failed(op_id: str, at_ms: int = 0) -> Failed:
    return Failed(op=op(op_id), at_ms=at_ms, error=BROKEN)


def withdrawn(op_id: str, at_ms: int = 0) -> Withdrawn:
    return Withdrawn(op=op(op_id), at_ms=at_ms)


def attempt(op_id: str, number: int, at_ms: int = 0) -> AttemptFailed:
    """A failed attempt; the next one comes a second later."""
    return AttemptFailed(op=op(op_id), at_ms=at_ms, number=number, error=BROKEN, retry_at_ms=at_ms + 1000)


def cancel(at_ms: int = 0) -> CancelRequested:
    return CancelRequested(at_ms=at_ms)


def deadline(at_ms: int = 0) -> DeadlinePassed:
    return DeadlinePassed(at_ms=at_ms)


def requeued(void_from: int, at_ms: int = 0, *, has_ended: bool = False) -> Requeued:
    return Requeued(at_ms=at_ms, void_from=void_from, has_ended=has_ended)


def child(op_id: str) -> Op:
    """The child run of this operation; its workflow is what stands before the number."""
    return Op(op_id=op_id, kind=OpKind.child, name=op_id.rpartition("#")[0])


def started(op_id: str, child_id: str = "child-1", at_ms: int = 0, on_end: OnEnd = OnEnd.cancel) -> Started:
    return Started(op=child(op_id), at_ms=at_ms, child_id=child_id, on_end=on_end)


def patch(name: str) -> Op:
    return Op(op_id=f"{name}#1", kind=OpKind.patch, name=name)
