"""The host-wide right to write: one POSIX record lock per store, plus a mutex inside the process.

Record locks belong to a process, die with it, are not inherited by a fork and can name their holder. Their trap:
closing *any* descriptor of the file drops the process's locks on it. So the lock has a file of its own, opened once per
process, kept in a registry by real path, and never closed while somebody here uses it.

Two bytes are locked. Byte 1 is a turnstile: whoever wants byte 0 takes the turnstile first and leaves it once byte 0 is
theirs. Without it a process that writes all the time takes the lock again before a sleeping neighbour is awake; with it
the neighbour stands in the turnstile, and the busy one has to queue behind it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyrula_runtime.core.errors import StoreUnavailable

_RETRY_S = 0.001
_LOCK, _TURNSTILE = 0, 1
# struct flock in native order, with the kernel's padding
_FLOCK = "qqihh" if sys.platform == "darwin" else "hhqqi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds the lock; `pid` is 0 if the kernel does not tell (another container)."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command or 'unknown command'})" if self.pid > 0 else "another container"


@dataclass(slots=True, eq=False)
class WriteLock:
    """The lock of one store in this process. `held_since` and `waiting_since` are monotonic seconds, 0 when not so."""

    path: Path
    fd: int
    users: int = 0
    held_since: float = 0.0
    waiting_since: float = 0.0
    # Since when it is wanted or held (monotonic ms; 0: let go), for whoever looks at this process from outside:
    # told before it is had, since the kernel gives it to a process that waits even if that cannot say so any more.
    tell_tenure: Callable[[int], None] = lambda _: None
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; waits for it as long as it takes."""
        self.waiting_since = time.monotonic()
        with self._mutex:
            self.tell_tenure(int(time.monotonic() * 1000))
            try:
                self._take()
                self.waiting_since, self.held_since = 0.0, time.monotonic()
                try:
                    yield
                finally:
                    self.held_since = 0.0
                    fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, _LOCK)
            finally:
                self.tell_tenure(0)

    def _take(self) -> None:
        self._wait_for(_TURNSTILE)
        try:
            self._wait_for(_LOCK)
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, _TURNSTILE)

    def _wait_for(self, byte: int) -> None:
        while True:
            try:
                fcntl.lockf(self.fd, fcntl.LOCK_EX, 1, byte)
                return
            except OSError as error:
                # The kernel looks for deadlocks between processes, not threads: with two stores in a process it may
                # see one where another thread is about to let go.
                if error.errno != errno.EDEADLK:
                    raise
            time.sleep(_RETRY_S)

    @contextmanager
    def held_within(self, patience_s: float) -> Iterator[None]:
        """Hold the lock, or raise StoreUnavailable if it cannot be had in time.

        A thread of its own waits for the lock and holds it, because waiting in the kernel has no time limit, and asking
        again and again would starve among processes that do wait. When patience ends, the thread is left to wait, and
        lets go at once when it gets the lock.
        """
        granted, done = threading.Event(), threading.Event()
        obtain(self.path)  # the thread may outlive its caller's use of the file
        threading.Thread(target=self._hold, args=(granted, done), name="pyrula-store-lock", daemon=True).start()
        try:
            if not granted.wait(patience_s):
                raise StoreUnavailable(self.complaint())
            yield
        finally:
            done.set()

    def _hold(self, granted: threading.Event, done: threading.Event) -> None:
        with self.held():
            granted.set()
            done.wait()
        give_up(self)

    def waited_s(self) -> float:
        """How long a thread of this process has been waiting for the lock."""
        since = self.waiting_since
        return time.monotonic() - since if since else 0.0

    def complaint(self) -> str:
        """Who keeps us from writing, in a sentence that stays the same as long as that does: it is told once."""
        holder = self.holder()
        who = str(holder) if holder else "a thread of this process"
        return (
            f"the write lock {self.path} is held by {who} and was waited for in vain; if that process hangs or is "
            f"stopped, end it: pyrula goes on by itself"
        )

    def holder(self) -> Holder | None:
        """The other process that holds the lock now, if one does."""
        question = _flock(fcntl.F_WRLCK, _LOCK)
        kind, pid = _answer(fcntl.fcntl(self.fd, fcntl.F_GETLK, question))
        return None if kind == fcntl.F_UNLCK else Holder(pid=pid, command=_command(pid))


def _flock(kind: int, start: int) -> bytes:
    if sys.platform == "darwin":
        return struct.pack(_FLOCK, start, 1, 0, kind, os.SEEK_SET)
    return struct.pack(_FLOCK, kind, os.SEEK_SET, start, 1, 0)


def _answer(flock: bytes) -> tuple[int, int]:
    fields = struct.unpack(_FLOCK, flock)
    return (fields[3], fields[2]) if sys.platform == "darwin" else (fields[0], fields[4])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


_registry: dict[Path, WriteLock] = {}
_registry_mutex = threading.Lock()


def obtain(path: Path) -> WriteLock:
    """The process's one lock object for this lock file; give it back with `give_up`."""
    real = path.resolve()
    with _registry_mutex:
        lock = _registry.get(real)
        if lock is None:
            lock = _registry[real] = WriteLock(real, os.open(real, os.O_RDWR | os.O_CREAT, 0o666))
        lock.users += 1
        return lock


def give_up(lock: WriteLock) -> None:
    """Close the file once nobody in the process uses it."""
    with _registry_mutex:
        lock.users -= 1
        if lock.users == 0:
            del _registry[lock.path]
            os.close(lock.fd)


def forget_all_after_fork() -> None:
    """A fork's copy of the registry names the parent's locks, which the child does not have."""
    _registry.clear()


os.register_at_fork(after_in_child=forget_all_after_fork)
