"""Wait statuses: in words, as a departure that somebody asked for, and as a cause that runs are blamed on."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from pyrula_runtime.core.deaths import Cause

KILLED = -signal.SIGKILL
LOOP_FAILED = 1
BAD_CONFIGURATION = 78
# 0 after a drain, 143 and 130 after a second signal, -15 and -2 when the signal came before there was a handler.
_ASKED = frozenset({0, 143, 130, -signal.SIGTERM, -signal.SIGINT})


def was_asked(status: int) -> bool:
    """Whether a process that ends so was told to, by whomever."""
    return status in _ASKED


# What else a status means. A code that is not here is none of ours, a signal that is not is from we do not know whom.
_CAUSES: Mapping[int, Cause] = {
    BAD_CONFIGURATION: Cause.blameless,
    -signal.SIGSEGV: Cause.crashed,
    -signal.SIGABRT: Cause.crashed,
    -signal.SIGBUS: Cause.crashed,
    -signal.SIGFPE: Cause.crashed,
    -signal.SIGILL: Cause.crashed,
} | dict.fromkeys(_ASKED, Cause.blameless)


def cause_of(status: int, *, out_of_memory: bool = False, loop_failed: bool = False) -> Cause:
    """What the end of a worker that we have not killed is blamed on, given the evidence for want of memory."""
    if status == KILLED and out_of_memory:
        return Cause.out_of_memory
    if status == LOOP_FAILED and loop_failed:
        return Cause.blameless
    return _CAUSES.get(status, Cause.exited if status > 0 else Cause.killed)


def words(status: int) -> str:
    """What an exit status means: negative for a signal."""
    if status >= 0:
        return f"exited with code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


def lasted(ms: int) -> str:
    """A length of time for people."""
    seconds = ms / 1000
    for unit_s, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{max(seconds, 0):.2g} s"


def sized(size_bytes: int) -> str:
    """An amount of memory for people."""
    return f"{size_bytes / (1 << 20):,.0f} MiB"
