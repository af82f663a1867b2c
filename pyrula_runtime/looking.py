"""What the kernel says of a process's threads: read from outside or inside, a dozen microseconds a thread.

On other systems than Linux, and of a process that is gone or not ours to see, all of it is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pyrula_runtime.core.standstill import UNKNOWN, ThreadSample

# where cgroups are mounted; version 1 has a hierarchy for each controller
_CGROUPS = "/sys/fs/cgroup"
# where in the kernel a thread is that a cgroup has frozen
_FROZEN_AT = frozenset({b"do_freezer_trap", b"__refrigerator"})
# first and last byte of the locks in stores/sqlite/write_lock.py, as the kernel lists them
_STORE_LOCKS = ([b"0", b"0"], [b"1", b"1"], [b"0", b"1"])


class Onlooker:
    """Looks at one process. It goes by the pid, so look no more when that process may be gone."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._freezers = list(_freezers_of(pid))

    def thread(self, thread_id: int) -> ThreadSample:
        """One thread, by the kernel's id."""
        folder = f"/proc/{self._pid}/task/{thread_id}"
        stat, times = _read(f"{folder}/stat"), _read(f"{folder}/schedstat").split()
        if not stat or len(times) < 3:
            return UNKNOWN
        state = stat.rpartition(b")")[2].split(maxsplit=1)[0].decode()  # the name before it may hold anything
        cpu_ns, wait_ns, slices = map(int, times[:3])
        return ThreadSample(state=state, cpu_ms=cpu_ns / 1e6, wait_ms=wait_ns / 1e6, slices=slices)

    def threads(self) -> dict[int, ThreadSample]:
        """All threads."""
        try:
            found = [int(name) for name in os.listdir(f"/proc/{self._pid}/task")]
        except OSError:
            return {}
        return {thread_id: self.thread(thread_id) for thread_id in found}

    def keeps_others_out(self) -> bool:
        """Whether it has an embedded store's write lock, or the turnstile before it: a POSIX lock on byte 0 or 1."""
        pid = str(self._pid).encode()
        for line in _read_all("/proc/locks").splitlines():
            fields = line.split()
            # a lock that is waited for has an arrow in the second place
            if fields[1:4] == [b"POSIX", b"ADVISORY", b"WRITE"] and fields[4] == pid and fields[6:] in _STORE_LOCKS:
                return True
        return False

    def is_frozen(self, thread_id: int) -> bool:
        """Whether a cgroup keeps this process, or at least this thread, from running."""
        if any(sign in _read(path) for path, sign in self._freezers):
            return True
        return _read(f"/proc/{self._pid}/task/{thread_id}/wchan") in _FROZEN_AT


def _freezers_of(pid: int) -> Iterator[tuple[str, bytes]]:
    """The files that say whether this process's cgroup is frozen, and what they say then."""
    for line in _read(f"/proc/{pid}/cgroup").decode(errors="replace").splitlines():
        _number, controllers, path = line.split(":", 2)
        if not controllers:
            for root in (_CGROUPS, f"{_CGROUPS}/unified"):  # the latter beside version 1
                yield f"{root}{path}/cgroup.events", b"frozen 1"
        elif controllers == "freezer":
            yield f"{_CGROUPS}/freezer{path}/freezer.state", b"FR"  # FROZEN or FREEZING, else THAWED


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 4096)
    except OSError:  # the thread has ended since
        return b""
    finally:
        os.close(fd)


def _read_all(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
