"""From a raised exception to the record that journal and run keep of it, and back."""

from __future__ import annotations

import traceback

from pyrula_runtime.core.entries import Failed
from pyrula_runtime.core.errors import ErrorRecord, PyrulaError, StepFailed, StepTimeout
from pyrula_runtime.users_code import is_users

_MAX_TRACEBACK = 8_000
_MAX_MESSAGE = 10_000


def raised_for(failed: Failed) -> PyrulaError:
    """What a body gets for an operation that gave up: the same live and in every replay."""
    op, error = failed.op, failed.error
    kind = StepTimeout if error.type == StepTimeout.__name__ else StepFailed
    return kind(op.name, error, op.op_id)


def record_of(error: BaseException) -> ErrorRecord:
    """What is stored of an exception: class name, message, and the user's own frames. Never raises."""
    try:
        return _told(error)
    except BaseException as worse:  # noqa: BLE001 - class, notes, causes and groups are the user's, and may be anything
        traceback_fault = f"its traceback cannot be shown: {type(worse).__name__}"
    return ErrorRecord(type=type(error).__name__, message=message_of(error), traceback=traceback_fault)


def _told(error: BaseException) -> ErrorRecord:
    failed = first_step_failure(error)
    origin = _user_traceback(error) if failed is None else failed.error.traceback
    # `raise OrderFailed(...) from failed` says that the step is why, so a requeue goes on from there as well
    failed = failed or first_step_failure(error.__cause__)
    detail = {} if failed is None else {"step": failed.step, "op_id": failed.op_id, "error_type": failed.error.type}
    return ErrorRecord(
        type=type(error).__name__, message=message_of(error), traceback=_storable(origin), detail=dict(detail)
    )


def message_of(error: BaseException) -> str:
    """What an exception says, as text that can be stored; the user's own `__str__` may fail."""
    try:
        message = _storable(str(error))
    except BaseException as worse:  # noqa: BLE001 - it becomes the message
        message = f"its message cannot be shown: {type(worse).__name__}"
    return message[:_MAX_MESSAGE]


def _storable(text: str) -> str:
    """The text with what has no UTF-8 (halves of surrogate pairs, as in names of files) written as escapes."""
    return str.encode(text, errors="backslashreplace").decode()


def first_step_failure(error: BaseException | None) -> StepFailed | None:
    """The step failure that an exception is or, as a group, holds."""
    if isinstance(error, StepFailed):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(first_step_failure, error.exceptions)), None)
    return None


def _user_traceback(error: BaseException) -> str:
    """The traceback from the user's first frame on, cut to its end if it is very long.

    What called the user's code, ours and a thread pool's, is left out. An error of ours that no code of the user's
    raised, such as an input that does not fit, has no traceback: its sentence says all.
    """
    told = traceback.TracebackException.from_exception(error)
    first = next((at for at, frame in enumerate(told.stack) if is_users(frame.filename)), None)
    if first is None and isinstance(error, PyrulaError):
        return ""
    told.stack = traceback.StackSummary.from_list(told.stack[first or 0 :])
    return "".join(told.format())[-_MAX_TRACEBACK:]
