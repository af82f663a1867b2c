"""How a run ends by its code: what the last commit of its turn says about value or error."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from pyrula_runtime.core.errors import (
    CodecFailed,
    ContinuesAsNew,
    ErrorRecord,
    JournalMismatch,
    LimitExceeded,
    RunCancelled,
    RunTimeout,
)
from pyrula_runtime.core.limits import entry_fault
from pyrula_runtime.core.status import RunEvent, RunStatus, after
from pyrula_runtime.engine.codec import dump_error
from pyrula_runtime.engine.failure import record_of
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.engine.program import Program
from pyrula_runtime.engine.waits import Waits
from pyrula_runtime.stores.protocol import Ending, Wait


def by_body(
    program: Program, payloads: Payloads, blow: RunStatus | None, value: object, error: BaseException | None
) -> Ending:
    """The body returned `value` or raised `error`; `blow` is how the run ends if a blow has unwound it. CodecFailed."""
    if error is None:
        return returned(program, value, payloads)
    if isinstance(error, ContinuesAsNew):
        return Ending(status=after(RunStatus.running, RunEvent.again), again=payloads.seal(error.given))
    if blow is None or not isinstance(error, asyncio.CancelledError):
        return failed(record_of(error), payloads)
    if blow is RunStatus.cancelled:
        return cancelled()
    return failed(record_of(RunTimeout(f"the run took longer than its timeout of {program.timeout_s} s")), payloads)


def returned(program: Program, value: object, payloads: Payloads) -> Ending:
    """The code returned this: the run completes, or fails because nobody could store it. CodecFailed."""
    try:
        raw = payloads.dump_json(program.to_json(value))
        if (fault := entry_fault("the run's result", len(raw))) is not None:
            raise LimitExceeded(fault)
    except CodecFailed:
        raise
    except BaseException as error:  # noqa: BLE001 - what makes JSON of it may be the user's code
        told = record_of(error)
        return failed(replace(told, message=f"result: {told.message}"), payloads)
    return Ending(status=after(RunStatus.running, RunEvent.complete), result=raw)


def failed(error: ErrorRecord, payloads: Payloads) -> Ending:
    """The code raised this. CodecFailed."""
    return Ending(status=after(RunStatus.running, RunEvent.fail), error=payloads.dump_error(error))


def cancelled() -> Ending:
    """A cancel has unwound the code, or found none."""
    return Ending(status=after(RunStatus.running, RunEvent.cancelled))


def given_up(program: Program, blow: RunStatus | None) -> Ending:
    """A blow has struck the code, and it has not unwound in time."""
    late = f"and its code had not unwound {program.cancel_within_s:g} s after that"
    if blow is RunStatus.cancelled:
        error = ErrorRecord(type=RunCancelled.__name__, message=f"the run was cancelled, {late}")
        return Ending(status=after(RunStatus.running, RunEvent.cancelled), error=dump_error(error))
    timeout = f"the run took longer than its timeout of {program.timeout_s} s, {late}"
    error = ErrorRecord(type=RunTimeout.__name__, message=timeout)
    return Ending(status=after(RunStatus.running, RunEvent.fail), error=dump_error(error))


def by_fault(fault: Exception) -> Ending:
    """Code or codec do not fit the journal, and somebody has to look; or the code cannot go on, and the run fails."""
    event = RunEvent.mismatch if isinstance(fault, JournalMismatch | CodecFailed) else RunEvent.fail
    detail = fault.detail if isinstance(fault, JournalMismatch) else {}
    error = ErrorRecord(type=type(fault).__name__, message=str(fault), detail=detail)
    return Ending(status=after(RunStatus.running, event), error=dump_error(error))


def suspended(due_ms: int | None, waits: Waits, *, cancel_seen: bool) -> Ending:
    """Nothing is left to do but to wait."""
    wait = Wait(
        due_ms=due_ms,
        inbox_seen=waits.inbox_seen,
        wake_status=after(RunStatus.waiting, RunEvent.wake),
        cancel_seen=cancel_seen,
        awaits=waits.awaited,
    )
    return Ending(status=after(RunStatus.running, RunEvent.suspend), wait=wait)
