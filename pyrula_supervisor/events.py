"""Everything that can happen to a supervisor, one frozen value each: the only way in to the reducer.

`now_ms` is the monotonic clock as read once per pass of the shell's loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyrula_runtime.core.standstill import Verdict
from pyrula_runtime.wire import (
    Blocked,
    Buried,
    CannotStart,
    Evacuated,
    Forked,
    Hello,
    Judged,
    Queue,
    Ready,
    Report,
    Stack,
    Unblocked,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time passed. `late_ms` is how much later than planned the shell woke up (a pause of the parent itself)."""

    now_ms: int
    late_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """A process asked for exists (spawned by us, or adopted from the template)."""

    now_ms: int
    incarnation: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnFailed:
    """A process asked for could not be made."""

    now_ms: int
    incarnation: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A process sent a message; who it is comes from its socket, not from the text."""

    now_ms: int
    incarnation: str
    message: (
        Hello
        | Ready
        | CannotStart
        | Forked
        | Report
        | Blocked
        | Unblocked
        | Evacuated
        | Stack
        | Buried
        | Judged
        | Queue
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A process of ours was reaped. `status` is the wait status's exit code, negative for a signal.

    `by_kernel` says that the kernel has just killed a process of this host for want of memory.
    """

    now_ms: int
    incarnation: str
    pid: int
    status: int
    max_rss_bytes: int = 0
    by_kernel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSeen:
    """A worker's lane as seen from outside: told while it stands still, when that changes, and once when it is over.

    `stuck_ms` counts only time in which the worker could run; 0: the lane turns again. The place is empty for code of
    no run, and if some thread keeps the GIL of which nobody can tell whose it is (`unknown`). `lock_ms` is how long the
    worker has stood still with the store's write lock, as far as that is held against it, which `lock_kept` alone
    decides; `lock_wall_ms` is the same by the clock on the wall. `silent_ms` is by that clock for how long its watchdog
    has not run; 0: not for long, or it is stopped or frozen: then its locks may lapse.
    """

    now_ms: int
    incarnation: str
    verdict: Verdict
    stuck_ms: int = 0
    run_id: str = ""
    workflow: str = ""
    step: str = ""
    op_id: str = ""
    entries: int = 0
    thread_id: int = 0  # the kernel's, of the thread that executes it; 0: the lane's
    lock_ms: int = 0
    lock_wall_ms: int = 0
    unknown: bool = False
    silent_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The resident memory of a process, read now and then."""

    now_ms: int
    incarnation: str
    rss_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """SIGTERM, SIGINT or the stop command; `exit_code` is what a *second* such signal leaves with (143, 130)."""

    now_ms: int
    exit_code: int = 143
    is_signal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadAsked:
    """SIGHUP or the reload command; `asker` gets the answer (0: nobody waits)."""

    now_ms: int
    asker: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleAsked:
    """Have so many workers."""

    now_ms: int
    procs: int
    asker: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartAsked:
    """Replace the worker of one slot, new before old."""

    now_ms: int
    slot: int
    asker: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpAsked:
    """Show the stack of one slot's lane."""

    now_ms: int
    slot: int
    asker: int = 0


Event = (
    Tick
    | Spawned
    | SpawnFailed
    | Said
    | Exited
    | LaneSeen
    | Weighed
    | StopAsked
    | ReloadAsked
    | ScaleAsked
    | RestartAsked
    | DumpAsked
)
