"""The error of a quarantined run: what its code did, where, how often, with all the evidence of the last time."""

from __future__ import annotations

from pyrula_runtime.core.deaths import Cause, Evidence
from pyrula_runtime.core.errors import ErrorRecord, Json

# the type of the error, and what the code did in words
_SAID = {
    Cause.loop_blocked: ("EventLoopBlocked", "blocked its worker"),
    Cause.crashed: ("WorkerCrashed", "crashed its worker"),
    Cause.exited: ("WorkerExited", "ended its worker"),
    Cause.out_of_memory: ("OutOfMemory", "took all the memory of its worker"),
    Cause.store_frozen: ("StoreFrozen", "stood still with the store's write lock"),
    Cause.killed: ("WorkerKilled", "was killed again and again"),
}


def poisoned(charges: int, evidence: Evidence) -> ErrorRecord:
    """The error of a run that has so many charges; the evidence is that of the last one."""
    kind, deed = _SAID[evidence.cause]
    line = f" at {evidence.line}" if evidence.line else ""
    message = f"its code {deed}{_where(evidence)}{line}; {charges} charges are more than are forgiven"
    facts: dict[str, Json] = {
        "step": evidence.step,
        "op_id": evidence.op_id,
        "duration_ms": evidence.for_ms,
        "line": evidence.line,
        "stack": evidence.stack,
        "worker": evidence.worker,
        "pid": evidence.pid,
        "exit": evidence.exit,
        "rss_bytes": evidence.rss_bytes,
        "limit_bytes": evidence.limit_bytes,
    }
    detail: dict[str, Json] = {"reason": "poison", "cause": evidence.cause.value, "charges": charges, "evidence": facts}
    return ErrorRecord(type=kind, message=message, detail=detail)


def _where(evidence: Evidence) -> str:
    if evidence.step:
        return f" in step {evidence.step!r}"
    return " in the workflow's body" if evidence.for_ms else ""
