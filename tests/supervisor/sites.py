"""A site with supervisors: a folder with an app, and `pyrula-supervisor` as a person would start and ask it there."""

from __future__ import annotations

import contextlib
import json
import re
import resource
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from tests.cli.sites import PATIENCE_S, Site, Worker

SUPERVISOR = [sys.executable, "-P", "-m", "pyrula_supervisor"]

STUCK_APP = '''
"""Workflows that do not let go."""
import re
import resource

from pyrula.workflows import workflow


@workflow
async def holds_gil(ctx) -> None:
    re.match("(a+)+b", "a" * 64)
'''


class Supervisor(Worker):
    """A running supervisor and what it has said so far, its workers' lines among it."""

    def said_ready(self, count: int) -> None:
        """Wait until so many of its workers have said that they are ready, since it was asked last."""
        seen: set[str] = set()
        while len(seen) < count:
            found = re.search(r"worker (\d+) \(pid \d+\) is ready", self.said(" is ready after "))
            if found:
                seen.add(found[1])


class SupervisedSite(Site):
    """A site on which supervisors run; all of them end with it, and all that they have started."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "stuck_app.py").write_text(STUCK_APP)
        self._supervisors: list[Supervisor] = []

    def supervise(
        self, *args: str, target: str = "app", health: bool = False, program: Sequence[str] = SUPERVISOR
    ) -> Supervisor:
        """Start a supervisor; without a port unless one is wanted: then any that is free."""
        port = str(free_port()) if health else "0"
        process = subprocess.Popen(
            [*program, "--workflow", target, "--health-port", port, *args],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        made = Supervisor(process)
        self._supervisors.append(made)
        return made

    def ask(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run `pyrula-supervisor` to its end."""
        return subprocess.run(
            [*SUPERVISOR, *args],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def status(self, *args: str) -> dict[str, Any]:
        """The status document."""
        told: dict[str, Any] = json.loads(self.ask("status", "--json", *args).stdout)
        return told

    def close(self) -> None:
        """End what still runs."""
        super().close()
        for each in self._supervisors:
            left = []
            with contextlib.suppress(psutil.NoSuchProcess):
                left = psutil.Process(each.process.pid).children(recursive=True)
            each.end()
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def many_descriptors() -> Iterator[None]:
    """Room for a crowd of connections in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        number: int = found.getsockname()[1]
        return number


def fetched(url: str) -> tuple[int, str]:
    """Status and body of a page."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
