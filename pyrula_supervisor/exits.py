"""Wait statuses in words, and which of them mean that a process left because it was told to."""

from __future__ import annotations

import signal

# 0 after a drain, 143 and 130 after a second signal, -15 and -2 when the signal came before there was a handler.
_ASKED = frozenset({0, 143, 130, -signal.SIGTERM, -signal.SIGINT})


def was_asked(status: int) -> bool:
    """Whether a process that ends so was told to, by whomever."""
    return status in _ASKED


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
