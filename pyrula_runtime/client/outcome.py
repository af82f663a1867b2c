"""What an ended run has to say: its value, typed where the workflow is known, or the error that it ended with."""

from __future__ import annotations

from typing import Any

from pyrula_runtime.client.submittable import Submittable, known
from pyrula_runtime.core.errors import RunCancelled, RunEnded, RunFailed, RunQuarantined
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import load_error, load_json
from pyrula_runtime.stores.protocol import RunRecord

_RAISED: dict[RunStatus, type[RunEnded]] = {
    RunStatus.failed: RunFailed,
    RunStatus.cancelled: RunCancelled,
    RunStatus.quarantined: RunQuarantined,
}


def outcome(record: RunRecord, workflow: Submittable[Any] | None) -> Any:
    """The value of an ended run; raises RunFailed, RunCancelled or RunQuarantined with the stored error."""
    if record.status in _RAISED:
        raise _RAISED[record.status](record.run_id, None if record.error is None else load_error(record.error))
    value = None if record.result is None else load_json(record.result)
    reader = workflow or known(record.workflow)
    return value if reader is None else reader.read_result(value)
