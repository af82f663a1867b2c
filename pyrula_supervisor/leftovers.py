"""What a worker's tools leave behind: subprocesses that outlived it, found and killed.

Those of its process group die with it (see processes). A tool that made a session of its own survives, and becomes a
child of the subreaper: of us. So do processes that a *living* worker has sent off into the background, and these must
not be touched. Whose a process is, its environment says: it carries the incarnation it descends from, unless a tool has
wiped it, or it is a fork of a template's fork and carries the template's. Such a process is taken for a dead worker's
if it became ours between the last look before that death and the first one after it.

Killing one may bring up its children, so it is looked again after every death, and for a while after a worker's.

Where nobody adopts (not Linux), and when the supervisor itself was killed, tools stay alive. The next supervisor finds
them by the mark of a supervisor that is no more, in processes of the same user and the same pid namespace. Under a
service manager there are none, because that kills the whole control group.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path

from pyrula_runtime import kernel
from pyrula_runtime.hygiene import INCARNATION_MARK, SUPERVISOR_MARK

# how long after a worker's death processes may still come up (ms)
_SWEEP_MS = 2_000
# dead workers whose names are kept; their tools are gone long before so many more have died
_REMEMBERED = 1_000
# how often the living are looked at, so that they are known before the next death (ms)
_LOOK_EVERY_MS = 1_000


class Leftovers:
    """The orphans of our children; `look` as often as something died, and with every tick."""

    def __init__(self) -> None:
        self._strangers: set[int] = set()  # orphans that are a living worker's, as far as we can tell
        self._dead: dict[str, None] = {}  # workers that died, the latest last
        self._sweep_until_ms = 0
        self._looked_ms = 0

    def worker_died(self, incarnation: str, now_ms: int) -> None:
        """From now on, what it left is looked for."""
        self._sweep_until_ms = now_ms + _SWEEP_MS
        self._dead[incarnation] = None
        if len(self._dead) > _REMEMBERED:
            del self._dead[next(iter(self._dead))]

    def is_sweeping(self, now_ms: int) -> bool:
        """Whether a death is so recent that more may come up."""
        return now_ms < self._sweep_until_ms

    def look(self, now_ms: int, known: Collection[int], workers: Collection[str], *, forking: bool) -> None:
        """Kill what the dead left. `known` are our processes' pids, `workers` the living incarnations."""
        sweeping = self.is_sweeping(now_ms)
        if not sweeping and now_ms - self._looked_ms < _LOOK_EVERY_MS:
            return
        self._looked_ms = now_ms
        orphans = kernel.children_of_this_process().difference(known)
        self._strangers &= orphans
        for pid in orphans if sweeping else orphans - self._strangers:
            owner = _mark(pid, INCARNATION_MARK)
            if owner in self._dead:
                _kill(pid)
            elif owner in workers or not sweeping:
                self._strangers.add(pid)
            elif pid not in self._strangers and not forking:  # else it may be the fork that we wait for
                _kill(pid)

    def kill_all(self, known: Collection[int]) -> None:
        """At the end nothing may stay."""
        for pid in kernel.children_of_this_process().difference(known):
            _kill(pid)


def supervisor_mark(pid: int) -> str:
    """What marks the descendants of this supervisor: its pid and when it started, which no other process has."""
    return f"{pid}.{kernel.start_ticks(pid)}"


def sweep_of_the_dead() -> list[int]:
    """Kill what supervisors of this user left that are no more; the pids."""
    swept = []
    spared = _ancestors()
    for pid in _same_users():
        mark = _mark(pid, SUPERVISOR_MARK)
        if not mark or pid in spared or not _same_namespace(pid):
            continue
        number, _, ticks = mark.partition(".")
        if number.isdigit() and ticks.isdigit() and kernel.start_ticks(int(number)) != int(ticks):
            swept.append(pid)
            _kill(pid)
    return swept


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _mark(pid: int, name: str) -> str:
    """The value of a variable in the environment that a process was started with; empty if it cannot be known."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    prefix = f"{name}=".encode()
    found = (each for each in content.split(b"\0") if each.startswith(prefix))
    return next(found, prefix)[len(prefix) :].decode(errors="replace")


def _same_users() -> list[int]:
    found = []
    for name in os.listdir("/proc") if kernel.IS_LINUX else ():
        if name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if os.stat(f"/proc/{name}").st_uid == os.geteuid():
                    found.append(int(name))
    return found


def _same_namespace(pid: int) -> bool:
    """Whether its marks speak of the pids that we see."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def _ancestors() -> set[int]:
    """This process and those that started it: a supervisor may itself be started by a tool of another one."""
    found = set()
    pid = os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = kernel.parent_of(pid)
    return found
