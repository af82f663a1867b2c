"""Whether this process can be forked: what the app left behind while it was imported, each thing by its name.

A fork copies one thread. A lock that another one held is never released in the copy, a pool waits for workers that do
not exist there, a socket has two readers, a subprocess has a parent that does not know it. None of this fails at the
fork; it hangs weeks later. So any of it is a reason not to fork, without exceptions for threads that are known to be
harmless: nobody can know what they will hold.

Threads of native libraries (the pools of numeric ones) are seen as well: they are counted where the kernel counts.
A thread that was joined may live on for a moment in there, so a check that finds threads looks again for a while.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from pyrula_runtime import kernel

# how long threads may take to be gone that have ended (seconds), and how often it is looked
_PATIENCE_S, _LOOK_S = 0.5, 0.01
_SQLITE = b"SQLite format 3\0"
# native libraries that make threads when they are loaded, and what keeps them from it
_POOLS = (
    (re.compile(r"openblas"), "OPENBLAS_NUM_THREADS=1"),
    (re.compile(r"libmkl_"), "MKL_NUM_THREADS=1"),
    (re.compile(r"lib(gomp|omp|iomp5)\b"), "OMP_NUM_THREADS=1"),
    (re.compile(r"polars"), "POLARS_MAX_THREADS=1"),
)
_FAMILIES = {socket.AF_INET: "IP", socket.AF_INET6: "IPv6", socket.AF_UNIX: "Unix"}


def hazards(own_fds: Collection[int]) -> list[str]:
    """Why this process must not be forked: one phrase for each thing; nothing if it may be."""
    if not kernel.IS_LINUX:
        return ["this system is not Linux"]
    deadline = time.monotonic() + _PATIENCE_S
    while (found := list(_threads())) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return [*found, *_children(), *_loops(), *_descriptors(own_fds)]


def _threads() -> Iterator[str]:
    alive = {int(name) for name in os.listdir("/proc/self/task")} - {threading.get_native_id()}
    for thread in threading.enumerate():
        if thread.native_id in alive:
            alive.discard(thread.native_id)
            yield f"thread {thread.name!r} runs"
    if alive:
        loaded = Path("/proc/self/maps").read_text(errors="replace")
        hints = [hint for library, hint in _POOLS if library.search(loaded)]
        hint = f" (try to set {' '.join(hints)})" if hints else ""
        yield (
            f"{len(alive)} threads of native code run{hint}"
            if len(alive) > 1
            else f"a thread of native code runs{hint}"
        )


def _children() -> Iterator[str]:
    for pid in kernel.children_of_this_process():
        state = kernel.stat_fields(pid)[:1]
        if state and state != [b"Z"]:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            yield f"child process {pid} ({name}) runs"


def _loops() -> Iterator[str]:
    if asyncio._get_running_loop() is not None:
        yield "an event loop runs"


def _descriptors(own_fds: Collection[int]) -> Iterator[str]:
    for fd in kernel.open_fds():
        if fd in own_fds:
            continue
        try:
            mode, name = os.fstat(fd).st_mode, os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # that of the listing
        if stat.S_ISSOCK(mode):
            yield f"{_socket(fd)} is open"
        elif stat.S_ISFIFO(mode):
            yield f"a pipe (descriptor {fd}) is open"
        elif name.startswith("anon_inode:[eventpoll]"):
            yield f"an event loop was made and not closed (descriptor {fd})"
        elif stat.S_ISREG(mode) and _begins(fd, _SQLITE):
            yield f"SQLite database {name} is open"


def _socket(fd: int) -> str:
    with socket.socket(fileno=os.dup(fd)) as each:
        family = _FAMILIES.get(each.family, "")
        try:
            whom = f" to {_address(each.getpeername())}"
        except OSError:
            whom = f" at {_address(each.getsockname())}"
        return f"{family} socket{whom if whom.split()[1:] else ''} (descriptor {fd})".strip()


def _address(address: object) -> str:
    if isinstance(address, tuple):
        return ":".join(map(str, address[:2]))
    return address.decode(errors="replace") if isinstance(address, bytes) else str(address)


def _begins(fd: int, with_bytes: bytes) -> bool:
    """Whether the file begins so; through the descriptor itself, since closing another would drop the app's locks."""
    try:
        return os.pread(fd, len(with_bytes), 0) == with_bytes
    except OSError:  # not to be read
        return False
