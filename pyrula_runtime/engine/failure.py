"""From a raised exception to the record that journal and run keep of it, and back."""

from __future__ import annotations

import traceback

from pyrula_runtime.core.entries import Failed, OpKind
from pyrula_runtime.core.errors import (
    ChildFailed,
    ErrorRecord,
    Json,
    LimitExceeded,
    PyrulaError,
    SignalTimeout,
    StepFailed,
    StepTimeout,
    WaitTimeout,
)
from pyrula_runtime.users_code import is_users

OperationFailed = StepFailed | ChildFailed | WaitTimeout

_MAX_TRACEBACK = 8_000
_MAX_MESSAGE = 10_000


def raised_for(failed: Failed) -> PyrulaError:
    """What a body gets for an operation that gave up: the same live and in every replay."""
    op, error = failed.op, failed.error
    if error.type == LimitExceeded.__name__ and op.kind is not OpKind.step:
        return LimitExceeded(error.message)
    if op.kind is OpKind.signal:
        return SignalTimeout(error.message, op.op_id)
    if op.kind is OpKind.child:
        run_id, status = error.detail.get("child"), error.detail.get("child_status")
        return ChildFailed(op.name, str(run_id), str(status), error, op.op_id)
    if op.kind is OpKind.timeout:
        return WaitTimeout(error.message, op.op_id)
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
    failed = first_failure(error)
    origin = failed.error.traceback if isinstance(failed, StepFailed | ChildFailed) else _user_traceback(error)
    # `raise OrderFailed(...) from failed` says that the operation is why, so a requeue goes on from there as well
    detail = _detail(failed or first_failure(error.__cause__))
    return ErrorRecord(type=type(error).__name__, message=message_of(error), traceback=_storable(origin), detail=detail)


def _detail(failed: OperationFailed | None) -> dict[str, Json]:
    match failed:
        case StepFailed():
            return {"step": failed.step, "op_id": failed.op_id, "error_type": failed.error.type}
        case ChildFailed():
            return {"child": failed.run_id, "op_id": failed.op_id, "error_type": failed.error.type}
        case WaitTimeout():
            return {"op_id": failed.op_id}
    return {}


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


def first_failure(error: BaseException | None) -> OperationFailed | None:
    """The failure of an operation that an exception is or, as a group, holds."""
    if isinstance(error, StepFailed | ChildFailed | WaitTimeout):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := first_failure(each)) is not None), None)
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
