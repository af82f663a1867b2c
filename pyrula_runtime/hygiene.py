"""Clean processes: what a child of the supervisor must not inherit, and what it must set up before anything else.

**Signals.** A handler, a mask or a wake-up descriptor that came over by fork runs the parent's code in the child, or
swallows a SIGTERM. Dispositions go back to what Python starts with. A forked child keeps what the app installed while
it was imported (a dump on SIGUSR1, say), because a spawned child, which imports the app later, has it as well; and
nobody touches the five signals of a crash, where tools for crashes sit. SIGINT and SIGHUP are the terminal's word to
the supervisor, not to us; they get a handler that does nothing, since "ignored" would be inherited by the user's tools.

**Death.** The parent-death signal counts for the parent of the moment it is set. A double-forked child therefore waits
until it has been adopted, sets it, and looks once more: a parent that died in between is noticed by another `getppid`.

**Randomness.** `random` and numpy are seeded anew after a fork. An instance of `random.Random` that the app made while
it was imported stays the same in all children; only the app's own `after_fork` hook can know it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import stat
import sys
import time
from collections.abc import Collection, MutableMapping
from types import FrameType
from typing import NoReturn

from pyrula_runtime import kernel
from pyrula_runtime.wire import Start

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
_OURS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGALRM}
_FIXED = {signal.SIGKILL, signal.SIGSTOP}
# Python ignores these two in every program, so that a reader that went away is an error and not the end
_IGNORED = {signal.SIGPIPE, signal.SIGXFSZ}
# what is addressed to the supervisor alone
NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
# what marks a supervisor's descendants, so that tools which outlived everybody are found at the next start
SUPERVISOR_MARK, INCARNATION_MARK = "PYRULA_SUPERVISOR", "PYRULA_INCARNATION"
# how long a forked child may wait for its adoption, which takes less than a millisecond (seconds)
_ADOPTION_S = 1.0


def clean_spawned(start: Start, environ: MutableMapping[str, str]) -> None:
    """Make a freshly executed process ours: signals, group, death with the supervisor, environment."""
    _clean(start, environ, set(signal.valid_signals()) - _CRASHES, adopted_within_s=0)


def clean_forked(start: Start, environ: MutableMapping[str, str], line_fd: int) -> None:
    """The same for a child of the template, and what only a fork inherits: randomness, collector, sockets."""
    _clean(start, environ, _OURS, adopted_within_s=_ADOPTION_S)
    close_sockets(keep={0, 1, 2, line_fd})
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    gc.enable()


def _clean(
    start: Start, environ: MutableMapping[str, str], signals: Collection[int], *, adopted_within_s: float
) -> None:
    signal.set_wakeup_fd(-1)
    for number in set(signals) - _FIXED:
        signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    _die_with(start.supervisor_pid, adopted_within_s)
    for name in NOT_INHERITED:
        environ.pop(name, None)
    environ[INCARNATION_MARK] = start.incarnation


def close_sockets(keep: Collection[int]) -> None:
    """Close every socket that was inherited, but for some; files stay, for the app may have opened them."""
    for fd in kernel.open_fds():
        if fd in keep:
            continue
        with contextlib.suppress(OSError):  # the directory that was read, or closed by the closing of another
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.close(fd)


def _die_with(supervisor_pid: int, adopted_within_s: float) -> None:
    deadline = time.monotonic() + adopted_within_s
    while os.getppid() != supervisor_pid:
        if time.monotonic() >= deadline:
            _leave()
        time.sleep(0.0005)
    kernel.die_with_parent()
    if os.getppid() != supervisor_pid:
        _leave()


def _leave() -> NoReturn:
    """The supervisor died before it could be died with; nobody would ever ask for an exit code."""
    os._exit(1)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Not for us."""
