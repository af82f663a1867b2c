"""The states of a run and the one table that says how they change.

A run is `queued` until a worker claims it, `running` while a turn holds its lock, `waiting` when it needs nothing but
time or a message (from the first, if its start is delayed), `paused` when a person or a replay mismatch stopped it,
and then one of four terminal states, which absorb: no event leads out of them but an operator's `requeue`. Everything
absent from the table is illegal and changes nothing. The diagram in README is printed from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from pyrula_runtime.core.errors import IllegalTransition


class RunStatus(StrEnum):
    """Where a run stands."""

    queued = "queued"
    running = "running"
    waiting = "waiting"
    paused = "paused"
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"
    quarantined = "quarantined"

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self in TERMINAL


TERMINAL = frozenset({RunStatus.completed, RunStatus.failed, RunStatus.cancelled, RunStatus.quarantined})


class RunEvent(StrEnum):
    """What can happen to a run."""

    claim = "claim"  # a worker takes it
    release = "release"  # its worker hands it back, dies, or loses the lock
    again = "again"  # its code goes on as new, with another input
    suspend = "suspend"  # its turn ends in a wait
    wake = "wake"  # what it waits for has come
    mismatch = "mismatch"  # replay found other code than the journal's
    pause = "pause"  # operator
    resume = "resume"  # operator
    delay = "delay"  # operator, of a run whose start is still to come
    complete = "complete"  # its code returned
    fail = "fail"  # its code raised
    cancelled = "cancelled"  # its code was unwound by a cancel
    drop = "drop"  # cancelled while no code of it is anywhere
    quarantine = "quarantine"  # its charges passed the budget
    requeue = "requeue"  # operator, after a fix


_S, _E = RunStatus, RunEvent

TRANSITIONS: dict[tuple[RunStatus, RunEvent], RunStatus] = {
    (_S.queued, _E.claim): _S.running,
    (_S.queued, _E.pause): _S.paused,
    (_S.queued, _E.drop): _S.cancelled,
    (_S.running, _E.release): _S.queued,
    (_S.running, _E.again): _S.queued,
    (_S.running, _E.suspend): _S.waiting,
    (_S.running, _E.mismatch): _S.paused,
    (_S.running, _E.pause): _S.paused,
    (_S.running, _E.complete): _S.completed,
    (_S.running, _E.fail): _S.failed,
    (_S.running, _E.cancelled): _S.cancelled,
    (_S.running, _E.quarantine): _S.quarantined,
    (_S.waiting, _E.wake): _S.queued,
    (_S.waiting, _E.pause): _S.paused,
    (_S.waiting, _E.drop): _S.cancelled,
    (_S.paused, _E.resume): _S.queued,
    (_S.paused, _E.delay): _S.waiting,
    (_S.paused, _E.drop): _S.cancelled,
    (_S.failed, _E.requeue): _S.queued,
    (_S.quarantined, _E.requeue): _S.queued,
    (_S.paused, _E.requeue): _S.queued,
}


def after(status: RunStatus, event: RunEvent) -> RunStatus:
    """Return the status that `event` leads to.

    Raises IllegalTransition, which names both, when the table has no such cell.
    """
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransition(f"a run that is {status} cannot {event}") from None


# What a store is told to do with a run of each status: where it goes, or stays. A status that is absent absorbs.
Moves = Mapping[RunStatus, RunStatus]


def _moves(*events: RunEvent, staying: frozenset[RunStatus]) -> Moves:
    led = {status: target for (status, event), target in TRANSITIONS.items() if event in events}
    return MappingProxyType({**{status: status for status in staying}, **led})


_LIVE = frozenset(RunStatus) - TERMINAL
# its time has come
DUE = _moves(_E.wake, staying=frozenset())
# a message has come: every live run keeps it, one that waits goes on
DELIVERY = _moves(_E.wake, staying=_LIVE)
# the run it belongs to is cancelled or has ended: whoever is not at work is sent to be unwound, even from a pause
CANCELLATION = _moves(_E.wake, _E.resume, staying=_LIVE)


def diagram() -> str:
    """The table as a Mermaid state diagram, for README."""
    lines = ["stateDiagram-v2", "    [*] --> queued", "    [*] --> waiting: delay"]
    lines += [f"    {source} --> {target}: {event}" for (source, event), target in TRANSITIONS.items()]
    lines += [f"    {status} --> [*]" for status in RunStatus if status.is_terminal]
    return "\n".join(lines)
