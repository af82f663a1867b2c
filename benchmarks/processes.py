"""Processes seen from outside: who descends from whom, who is dead, what memory they have, how to be rid of them all.

What a killed parent leaves becomes ours (the benchmark is a subreaper), so nothing that was started in a home can
outlive it unseen.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_LOOK_S = 0.002
_KB = 1024


def become_subreaper() -> None:
    """Orphans of what we start become our children from now on."""
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """The pids of all that descend from a process, not its own."""
    found, new = [], [pid]
    while new:
        new = [child for parent in new for child in _children(parent)]
        found += new
    return found


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                yield from map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())


def is_dead(pid: int) -> bool:
    """Whether a process is gone, or waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def all_dead_after(pids: Iterable[int], since_ns: int, cap_s: float) -> float | None:
    """Seconds from a moment until all of them were dead; None if they were not within the cap."""
    left = set(pids)
    while left := {pid for pid in left if not is_dead(pid)}:
        if time.monotonic_ns() - since_ns > cap_s * 1e9:
            return None
        time.sleep(_LOOK_S)
    return (time.monotonic_ns() - since_ns) / 1e9


def send_all(pids: Iterable[int], number: signal.Signals) -> None:
    """A signal to each that still lives."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all(pid: int) -> None:
    """SIGKILL a process we started and all that descends from it, whoever was its parent meanwhile."""
    pids = [pid, *descendants(pid)]
    send_all(pids, signal.SIGKILL)
    all_dead_after(pids, time.monotonic_ns(), 5)


def end_orphans() -> None:
    """End and reap whatever is left of processes that have become our children since we are a subreaper."""
    pids = descendants(os.getpid())
    send_all(pids, signal.SIGKILL)
    all_dead_after(pids, time.monotonic_ns(), 5)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def memory_mb(pid: int) -> dict[str, float]:
    """Resident, proportional and private memory."""
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, size, *_ = line.split()
        sizes[name.rstrip(":")] = int(size) * _KB / 1e6
    return {"rss": sizes["Rss"], "pss": sizes["Pss"], "uss": sizes["Private_Clean"] + sizes["Private_Dirty"]}


def busy_s(pids: Iterable[int]) -> float:
    """Seconds of processor that they have had together."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return float(sum(each.user + each.system for each in times))


def tree_busy_s(roots: Iterable[int]) -> float:
    """Seconds of processor that processes and all that descend from them have had, also those that are gone by now."""
    total = 0.0
    for pid in [each for root in roots for each in (root, *descendants(root))]:
        with contextlib.suppress(psutil.NoSuchProcess):  # then its parent has its time
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
