"""What Linux offers for processes beyond `os`: a few calls and files, each a plain no where it is missing.

On other systems a supervisor does without: it does not adopt what its children leave behind, its children die by the
end of their socket instead of by a signal, and a lane with the GIL held gives no stack.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import mmap
import os
import platform
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# what the handler of a fatal signal may use: the kernel saves some thousand bytes there, of wide registers more
_SIGNAL_STACK = 1 << 16
# for C libraries that know the call but not its name
_SYS_TGKILL = {"x86_64": 234, "aarch64": 131}

IS_LINUX = sys.platform == "linux"
# Makes a worker whose memory cannot be read write the stack of the thread that it is sent to (None: not to be had).
# A real-time signal, since applications use the named ones; the first few belong to the C library.
STACK_SIGNAL: int | None = getattr(signal, "SIGRTMIN", -8) + 8 if IS_LINUX else None


class _SignalStack(ctypes.Structure):
    """`stack_t` of sigaltstack(2), as Linux has it."""

    _fields_ = (("begin", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> bool:
    return IS_LINUX and _libc().prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0


def adopt_descendants() -> bool:
    """Become the parent of every descendant whose own parent dies; whether the kernel does that."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> bool:
    """Be killed when the parent dies. It counts for the parent of this moment: look at `getppid` afterwards again."""
    return _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def signal_thread(pid: int, thread_id: int, number: int) -> bool:
    """Send a signal to one thread of a process; whether it was sent."""
    if not IS_LINUX:
        return False
    libc = _libc()
    if hasattr(libc, "tgkill"):
        return bool(libc.tgkill(pid, thread_id, number) == 0)
    call = _SYS_TGKILL.get(platform.machine())
    return call is not None and libc.syscall(call, pid, thread_id, number) == 0


@contextlib.contextmanager
def signal_stack() -> Iterator[None]:
    """In here this thread's signals have a stack of their own, so that the handler can tell that the thread's is full.

    Without one, whoever overflows a thread's stack dies without a word. The main thread gets one of `faulthandler`. If
    there is no memory for it the thread does without.
    """
    try:
        memory = mmap.mmap(-1, _SIGNAL_STACK) if IS_LINUX else None  # the kernel gives pages of it as they are used
    except OSError:
        memory = None
    if memory is None:
        yield
        return
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    before = _SignalStack()
    _libc().sigaltstack(ctypes.byref(_SignalStack(begin, 0, _SIGNAL_STACK)), ctypes.byref(before))
    try:
        yield
    finally:
        _libc().sigaltstack(ctypes.byref(before), None)


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot: with its pid, its name for good. 0: unknown."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def stat_fields(pid: int) -> list[bytes]:
    """What `/proc/<pid>/stat` says, from the state on; nothing if there is no such process, or no /proc."""
    try:
        content = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    return content.rpartition(b")")[2].split()  # the name may itself hold spaces and brackets


def parent_of(pid: int) -> int:
    """The pid of a process's parent; 0: unknown."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def children_of_this_process() -> set[int]:
    """The pids of all children, adopted ones and zombies among them; empty where the kernel does not say."""
    found: set[int] = set()
    for thread in _names("/proc/self/task"):
        try:
            found.update(map(int, Path(f"/proc/self/task/{thread}/children").read_bytes().split()))
        except OSError:
            continue  # a thread that ended meanwhile
    return found


def open_fds() -> list[int]:
    """The descriptors of this process; one of them may be the listing's own, which is closed again."""
    return sorted(map(int, _names("/proc/self/fd") or _names("/dev/fd")))


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
