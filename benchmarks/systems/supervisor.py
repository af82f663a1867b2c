"""`pyrula-supervisor` in a home: started, asked through its control socket, seen through its log."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bench import Home, Launch, Unfit
from benchmarks.processes import end_all
from pyrula.workflows import open_store
from pyrula.workflows.sync import WorkflowClient
from pyrula_runtime.core.errors import NoSupervisor
from pyrula_supervisor.asking import Door
from pyrula_supervisor.requests import Request

APP = "benchmarks.inside.supervised_app"
_LOOK_S = 0.002
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """How a supervisor is started."""

    app: str = APP
    procs: int = 4
    store: str | None = None  # the embedded one in the home, if none is given
    flags: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable


class Supervised:
    """One supervisor with its processes."""

    def __init__(self, home: Home, given: Given) -> None:
        self.home = home
        self.port = free_port()
        self.url = given.store or f"sqlite:///{home.db}"
        self._given = given
        self._read = 0  # how much of the log was looked at for workers that became ready
        (home.path / "pyrula").mkdir(mode=0o700, exist_ok=True)
        self._door = Door(directory=home.path / "pyrula", name="default")
        command = str(Path(given.python).with_name("pyrula-supervisor"))
        arguments = ["--workflow", given.app, "--store", self.url, "--procs", str(given.procs)]
        argv = [command, *arguments, "--health-port", str(self.port), *given.flags]
        self.process: subprocess.Popen[bytes] = home.start(Launch(argv=argv, env=given.env))

    def ready(self, count: int | None = None) -> list[int]:
        """Wait until so many more workers have become ready (all of them at first): their pids."""
        count = self._given.procs if count is None else count
        deadline = time.monotonic() + _PATIENCE_S
        pids: list[int] = []
        while len(pids) < count:
            text = self.home.said(self.process)
            whole = text.rfind("\n") + 1
            pids += map(int, re.findall(r"worker \d+ \(pid (\d+)\) is ready", text[self._read : whole]))
            self._read = max(self._read, whole)
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise Unfit(f"{len(pids)} of {count} workers became ready\n{text[-3_000:]}")
            time.sleep(_LOOK_S)
        return pids

    def settled(self) -> None:
        """Wait until the clerk has told of the store: then nothing is left of the start."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.document()["supervisor"]["unready"]:
            if time.monotonic() > deadline:
                raise Unfit(f"never ready\n{self.home.said(self.process)[-3_000:]}")
            time.sleep(_LOOK_S)

    def document(self) -> dict[str, Any]:
        """The status document."""
        found = self._door.ask(Request(command="status")).document
        if found is None:
            raise Unfit("the supervisor answers without its status")
        return found

    def scale(self, procs: int) -> None:
        """Have so many workers from now on; returns before they are there."""
        self._door.ask(Request(command="scale", number=procs))

    def seen(self) -> dict[str, Any] | None:
        """The status document; None while nobody answers."""
        try:
            return self.document()
        except NoSupervisor:
            return None

    def workers(self) -> list[int]:
        """The pids of the workers that are there."""
        return [row["pid"] for row in self.document()["children"] if row["role"] == "worker" and row["pid"]]

    def submit(self, workflow: str, *keys: str) -> None:
        """Submit a run for each key."""
        with WorkflowClient(open_store(self.url)) as client:
            for key in keys:
                client.submit(workflow, {"key": key})

    def stick_all(self, workflow: str) -> list[int]:
        """Have every worker stuck in a run of its own (each must take one run at a time): their pids."""
        self.submit(workflow, *map(str, range(self._given.procs)))
        return [note.pid for note in self.home.wait_for("stuck", self._given.procs)]


@contextmanager
def supervised(home: Home, given: Given) -> Iterator[Supervised]:
    """A supervisor, killed at the end with all that it has started."""
    made = Supervised(home, given)
    try:
        yield made
    finally:
        end_all(made.process.pid)
        made.process.wait()


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        number: int = found.getsockname()[1]
        return number
