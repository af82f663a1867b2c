"""Whoever keeps worker processes, as the faults know them: start, who are the workers, how to get one stuck."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from benchmarks.bench import Home, Launch, Unfit
from benchmarks.inside import DIES
from benchmarks.processes import end_all
from benchmarks.systems.servers import PROCS
from benchmarks.systems.supervisor import APP, Given, Supervised, free_port

_STUCK_WITHIN_S = 20.0
_ONE_AT_A_TIME = ("--max-concurrent-runs", "1")


class Suspect(Protocol):
    """One running parent with its workers, in a home of its own. Each worker notes `started` once it is ready."""

    home: Home
    process: subprocess.Popen[bytes]

    def stick(self, how: str) -> int:
        """Have a worker stuck (`sleeps` or `matches`): its pid."""

    def verdict(self, pid: int) -> str:
        """What the parent says of this worker, in a few words; empty if it knows nothing of a fault."""

    def ready(self) -> bool | None:
        """Whether it says that it is ready; None if it says nothing of the kind."""


Start = Callable[[Home, str, int | None], Suspect]


class Server:
    """gunicorn or uvicorn."""

    def __init__(
        self, launch: Callable[[str, Home, int, int | None], Launch], home: Home, fault: str, grace_s: int | None
    ) -> None:
        self.home, self._port = home, free_port()
        app = "benchmarks.inside.broken_app:app" if fault == "broken" else "benchmarks.inside.faulty_asgi:app"
        given = launch(app, home, self._port, grace_s)
        self.process = home.start(Launch(argv=given.argv, env={DIES: "1"} if fault == "dies" else {}))
        self._asked: list[socket.socket] = []

    def stick(self, how: str) -> int:
        asking = socket.create_connection(("127.0.0.1", self._port))
        self._asked.append(asking)  # open for as long as the worker shall be stuck
        asking.sendall(f"GET /{how} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        return self.home.wait_for("stuck", 1, _STUCK_WITHIN_S)[0].pid

    def verdict(self, pid: int) -> str:
        return ""

    def ready(self) -> bool | None:
        return None


class Pyrula:
    """The product. Its workers are stuck in a run each."""

    def __init__(self, home: Home, fault: str, grace_s: int | None) -> None:
        hook = "dies_soon" if fault == "dies" else "started"
        flags = [*_ONE_AT_A_TIME, "--after-fork", f"{APP}:{hook}"]
        flags += [] if grace_s is None else ["--shutdown-grace", str(grace_s)]
        app = "benchmarks.inside.broken_app" if fault == "broken" else APP
        self.home = home
        self._supervised = Supervised(home, Given(app=app, procs=PROCS, flags=flags if fault != "broken" else ()))
        self.process = self._supervised.process

    def stick(self, how: str) -> int:
        self._supervised.submit(how, "0")
        return self.home.wait_for("stuck", 1, _STUCK_WITHIN_S)[0].pid

    def verdict(self, pid: int) -> str:
        document = self._supervised.seen()
        rows = [] if document is None else [row for row in document["children"] if row["pid"] == pid]
        for row in rows:
            if row["blocked"]:
                held = ", GIL held" if row["blocked"]["gil_held"] else ""
                whose = f"named (step {row['blocked']['step'] or 'unknown'}{held})"
                return whose if row["blocked"]["run_id"] else f"blocked{held}, no run named"
            if row["stale"]:
                return "reported silent"
        return ""

    def ready(self) -> bool | None:
        document = self._supervised.seen()
        return document is not None and not document["supervisor"]["unready"]


@contextmanager
def started(start: Start, home: Home, fault: str = "", grace_s: int | None = None) -> Iterator[Suspect]:
    """One that was started, and its workers with it; killed at the end with all that it has started."""
    made = start(home, fault, grace_s)
    try:
        yield made
    finally:
        end_all(made.process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            made.process.wait(5)


def workers(suspect: Suspect) -> list[int]:
    """Wait until all its workers have become ready: their pids."""
    pids = list(dict.fromkeys(note.pid for note in suspect.home.wait_for("started", PROCS)))
    if len(pids) < PROCS:
        raise Unfit(f"only {len(pids)} of {PROCS} workers became ready")
    return pids
