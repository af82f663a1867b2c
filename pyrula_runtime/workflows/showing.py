"""What a body lets people see of a run while it goes on."""

from __future__ import annotations

from typing import Any

from pyrula_runtime.core.errors import InputError, LimitExceeded, UsageError
from pyrula_runtime.core.limits import status_fault
from pyrula_runtime.engine.codec import dump_json
from pyrula_runtime.forms.plain import plain_json


def status_document(status: Any) -> bytes:
    """A status as JSON; UsageError for what is no object of JSON, LimitExceeded if it is too large."""
    if not isinstance(status, dict):
        raise UsageError(f"ctx.set_status({status!r}): a status is a dict, such as {{'stage': 'packing', 'done': 3}}")
    try:
        document = dump_json(plain_json(status))
    except InputError as error:
        raise InputError(f"ctx.set_status: {error}") from error
    if (fault := status_fault(len(document))) is not None:
        raise LimitExceeded(f"ctx.set_status: {fault}")
    return document
