"""How much memory and CPU processes take, read from /proc without asking them.

Residence and CPU time stand in one small file that the kernel fills without taking a lock of the process, so a pass
over all children costs some microseconds each and cannot hang on a stuck one. What a process has for itself alone
(USS) costs the kernel a walk over its pages under the lock of its memory map, which a process in a bad state may hold
for ever: a thread of its own reads that, few processes at a time, and nobody ever waits for it.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_HAS_PROC = Path("/proc/self/stat").exists()
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# how old a USS may be before it is read again, and how many are read per pass
_USS_EVERY_MS = 20_000
_USS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What one process took when it was last looked at; None: not known yet, or not to be known on this system."""

    rss_bytes: int | None = None
    cpu_ticks: int | None = None
    cpu_percent: float | None = None  # of one core, since the look before
    at_ms: int = 0
    uss_bytes: int | None = None
    uss_ms: int | None = None


class Scales:
    """Weighs processes again and again; `weights` are by the caller's own key for each process."""

    def __init__(self) -> None:
        self.weights: dict[str, Weight] = {}
        self._deep = _DeepLooks()

    def weigh(self, pids: Mapping[str, int], now_ms: int) -> None:
        """Look at all of these processes; what is known of any other is forgotten."""
        deep = self._deep.taken()
        weights = {}
        for key, pid in pids.items():
            weight = _looked(self.weights.get(key, Weight()), _stat(pid), now_ms)
            if key in deep:
                weight = replace(weight, uss_bytes=deep[key], uss_ms=now_ms)
            weights[key] = weight
        self.weights = weights
        if self._deep.is_idle:
            self._deep.ask({key: pids[key] for key in self._overdue(now_ms)})

    def _overdue(self, now_ms: int) -> list[str]:
        """Those whose USS is oldest."""
        read_ms = {key: -_USS_EVERY_MS if (ms := self.weights[key].uss_ms) is None else ms for key in self.weights}
        overdue = sorted((key for key, ms in read_ms.items() if now_ms - ms >= _USS_EVERY_MS), key=read_ms.__getitem__)
        return overdue[:_USS_AT_ONCE]


def _looked(before: Weight, stat: tuple[int, int] | None, now_ms: int) -> Weight:
    if stat is None:
        return replace(before, rss_bytes=None, cpu_percent=None, cpu_ticks=None, at_ms=now_ms)
    ticks, rss_bytes = stat
    percent = None
    if before.cpu_ticks is not None and now_ms > before.at_ms:
        percent = round((ticks - before.cpu_ticks) / _TICKS_PER_S * 100_000 / (now_ms - before.at_ms), 1)
    return replace(before, rss_bytes=rss_bytes, cpu_ticks=ticks, cpu_percent=percent, at_ms=now_ms)


def _stat(pid: int) -> tuple[int, int] | None:
    """CPU time in ticks and residence in bytes; None once it is gone."""
    if not _HAS_PROC:
        return _asked_of_system(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before may hold anything
    except OSError:
        return None
    return int(fields[11]) + int(fields[12]), int(fields[21]) * _PAGE


def _asked_of_system(pid: int) -> tuple[int, int] | None:
    """The same where there is no /proc (not Linux), at a higher price."""
    import psutil  # type: ignore[import-untyped]

    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return round((times.user + times.system) * _TICKS_PER_S), process.memory_info().rss
    except psutil.Error:
        return None


def uss_of(pid: int) -> int | None:
    """What a process has for itself alone, in bytes; may hang as long as the process does."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    return sum(int(line.split()[1]) for line in lines if line.startswith((b"Private_Clean:", b"Private_Dirty:"))) * 1024


class _DeepLooks:
    """The thread that reads USS. It ends with the process, wherever it hangs."""

    def __init__(self) -> None:
        self.is_idle = True
        self._asked: queue.SimpleQueue[dict[str, int]] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[str, int | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, pids: dict[str, int]) -> None:
        """Have these looked at; the thread is made when it has something to do."""
        if not pids:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="uss", daemon=True)
            self._thread.start()
        self.is_idle = False
        self._asked.put(pids)

    def taken(self) -> dict[str, int | None]:
        """What was found since the last time."""
        found = {}
        while not self._found.empty():
            key, uss_bytes = self._found.get()
            found[key] = uss_bytes
        return found

    def _look(self) -> None:
        while True:
            for key, pid in self._asked.get().items():
                self._found.put((key, uss_of(pid)))
            self.is_idle = True
