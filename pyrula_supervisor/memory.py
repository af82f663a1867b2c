"""Whether the kernel kills for want of memory: the counter of this process's cgroup, of either version.

A process that was killed so dies of SIGKILL like one that a person killed; only the counter tells them apart. It is
read every now and then, and when somebody has died: what is more than a few seconds ago is the kernel's answer. Tools
that a run has started count as well, since they die of the same want.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

# a rise counts for a death that is seen so much later (ms)
_LATELY_MS = 5_000
_COUNTER = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


class KernelKills:
    """The counter. It is 0 for ever where there is none."""

    def __init__(self, cgroups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> None:
        self._path = next((path for path in _counters(cgroups, own) if _COUNTER.search(_read(path))), None)
        self._seen: deque[tuple[int, int]] = deque([(0, self._count())])

    def look(self, now_ms: int) -> None:
        """Remember what it says now."""
        self._seen.append((now_ms, self._count()))
        while len(self._seen) > 1 and self._seen[1][0] <= now_ms - _LATELY_MS:
            self._seen.popleft()

    def rose(self, now_ms: int) -> bool:
        """Whether the kernel has killed lately."""
        self.look(now_ms)
        return self._seen[-1][1] > self._seen[0][1]

    def _count(self) -> int:
        found = _COUNTER.search(_read(self._path)) if self._path else None
        return int(found[1]) if found else 0


def _counters(cgroups: Path, own: Path) -> Iterator[Path]:
    """Where the counter may be: of this process's group, or, seen from inside of a container, of the root."""
    for line in _read(own).decode(errors="replace").splitlines():
        _number, controllers, path = line.split(":", 2)
        for place in (path.strip("/"), ""):
            if not controllers:
                yield cgroups / place / "memory.events"
            elif controllers == "memory":
                yield cgroups / "memory" / place / "memory.oom_control"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
