"""From a raised exception to the record that journal and run keep of it."""

from __future__ import annotations

import traceback
from pathlib import Path

from pyrula_runtime.core.errors import ErrorRecord, StepFailed

_OURS = str(Path(__file__).resolve().parent.parent)
_MAX_TRACEBACK = 8_000
_MAX_MESSAGE = 10_000


def record_of(error: BaseException) -> ErrorRecord:
    """What is stored of an exception: class name, message, and the user's own frames."""
    failed = first_step_failure(error)
    if failed is not None:
        detail = {"step": failed.step, "op_id": failed.op_id, "error_type": failed.error.type}
        origin = failed.error.traceback
    else:
        detail, origin = {}, _user_traceback(error)
    message = str(error)[:_MAX_MESSAGE]
    return ErrorRecord(type=type(error).__name__, message=message, traceback=origin, detail=dict(detail))


def first_step_failure(error: BaseException) -> StepFailed | None:
    """The step failure that an exception is or, as a group, holds."""
    if isinstance(error, StepFailed):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(first_step_failure, error.exceptions)), None)
    return None


def _user_traceback(error: BaseException) -> str:
    """The traceback without Pyrula's own frames above the user's code, cut to its end if it is very long."""
    told = traceback.TracebackException.from_exception(error)
    first = next((i for i, frame in enumerate(told.stack) if not frame.filename.startswith(_OURS)), 0)
    told.stack = traceback.StackSummary.from_list(told.stack[first:])
    return "".join(told.format())[-_MAX_TRACEBACK:]
