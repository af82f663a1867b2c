"""What an ended run has to say: its value, typed where the workflow is known, or the error that it ended with."""

from __future__ import annotations

from typing import Any

from pyrula_runtime.client.submittable import Submittable, known
from pyrula_runtime.core.errors import RunCancelled, RunEnded, RunFailed, RunQuarantined
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.payloads import Payloads
from pyrula_runtime.stores.protocol import RunRecord

_RAISED: dict[RunStatus, type[RunEnded]] = {
    RunStatus.failed: RunFailed,
    RunStatus.cancelled: RunCancelled,
    RunStatus.quarantined: RunQuarantined,
}


def outcome(record: RunRecord, workflow: Submittable[Any] | None, payloads: Payloads) -> Any:
    """The value of an ended run; raises RunFailed, RunCancelled or RunQuarantined with the stored error.

    CodecFailed if a value cannot be decoded here; an error is raised all the same, with the reason as its message.
    """
    if record.status in _RAISED:
        error = None if record.error is None else payloads.for_people().load_error(record.error)
        raise _RAISED[record.status](record.run_id, error)
    value = None if record.result is None else payloads.load_json(record.result)
    reader = workflow or known(record.workflow)
    return value if reader is None else reader.read_result(value)
