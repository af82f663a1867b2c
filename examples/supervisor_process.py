"""A real `pyrula-supervisor` in a process of its own, started again when somebody kills it, and how it says it is.

The supervisor gets a session of its own: a Ctrl-C in the terminal reaches the demonstration alone, which then asks for
the drain exactly once. A second request would end everything at once.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHECKOUT = Path(__file__).resolve().parents[1]
_SUPERVISOR = str(Path(sys.executable).with_name("pyrula-supervisor"))
# lines of the supervisor's log that are shown if it gives up
_LAST_LINES = 15
# how long to wait for one that does not answer yet (seconds)
_AGAIN_S = 0.5
# a status document of a few workers is some kilobytes long; one with stacks is longer
_MAX_LINE = 1 << 24


class SupervisorGaveUp(Exception):
    """It ended by itself, so starting it again would not help; the message has the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """How a supervisor is started, and where its log goes."""

    name: str
    app: str
    log: Path
    environ: Mapping[str, str]
    procs: int = 4
    flags: Sequence[str] = ()

    @property
    def command(self) -> list[str]:
        """Start it."""
        procs = ["--procs", str(self.procs), "--health-port", "0"]
        return [_SUPERVISOR, "--name", self.name, *procs, "--workflow", self.app, *self.flags]

    @property
    def watching(self) -> list[str]:
        """Print its status document every second."""
        return [_SUPERVISOR, "status", "--name", self.name, "--watch", "--json"]


class SupervisorProcess:
    """The supervisor, whichever process it is at the moment."""

    def __init__(self, given: Given, say: Callable[[str], None]) -> None:
        self.pid = 0
        self._given = given
        self._say = say
        self._process: Process | None = None
        self._signals_sent = 0

    async def run(self) -> int:
        """Keep one running until `request_stop` has ended it: its exit code. Raises SupervisorGaveUp."""
        while True:
            code = await self._one_life()
            if self._signals_sent:
                return code
            if code >= 0:
                raise SupervisorGaveUp(f"the supervisor ended with exit code {code}:\n{self._end_of_log()}")
            name = signal.Signals(-code).name
            self._say(f"supervisor {self.pid} was ended by {name}; starting another, which goes on where it was")

    def request_stop(self) -> None:
        """Ask for a drain; a second time, for an end at once."""
        self._signals_sent += 1
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)

    async def watch(self, show: Callable[[dict[str, Any]], None]) -> None:
        """Hand on its status document every second, until cancelled."""
        while True:
            watch = await asyncio.create_subprocess_exec(
                *self._given.watching,
                env=self._given.environ,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_MAX_LINE,
            )
            assert watch.stdout is not None
            try:
                while line := await watch.stdout.readline():
                    show(json.loads(line))
                await watch.wait()
            finally:
                if watch.returncode is None:
                    watch.kill()
                    await watch.wait()
            await asyncio.sleep(_AGAIN_S)

    async def _one_life(self) -> int:
        with self._given.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._given.command,
                cwd=_CHECKOUT,
                env=self._given.environ,
                stdin=DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._say(f"supervisor {self.pid} starts {self._given.procs} workers")
        if self._signals_sent:  # asked for while it was being started
            self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    def _end_of_log(self) -> str:
        with self._given.log.open(errors="replace") as lines:
            return "".join(deque(lines, _LAST_LINES))
