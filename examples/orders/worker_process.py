"""A real `pyrula worker` in a process of its own, started again when somebody kills it.

The worker gets a session of its own: a Ctrl-C in the terminal reaches the demonstration alone, which then asks for the
drain exactly once. A second request would end the worker at once.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]
_COMMAND = (str(Path(sys.executable).with_name("pyrula")), "worker", "--workflow", "examples.orders.app")
# lines of the worker's log that are shown if it gives up
_LAST_LINES = 15


class WorkerGaveUp(Exception):
    """The worker ended by itself, so starting it again would not help; the message has the end of its log."""


class WorkerProcess:
    """The worker, whichever process it is at the moment."""

    def __init__(self, environ: Mapping[str, str], log: Path, say: Callable[[str], None]) -> None:
        self.pid = 0
        self._environ = dict(environ)
        self._log = log
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._signals_sent = 0

    async def run(self) -> int:
        """Keep a worker running until `request_stop` has ended it: its exit code. Raises WorkerGaveUp."""
        while True:
            code = await self._one_life()
            if self._signals_sent:
                return code
            if code >= 0:
                raise WorkerGaveUp(f"the worker ended with exit code {code}:\n{self._end_of_log()}")
            name = signal.Signals(-code).name
            self._say(f"worker {self.pid} was ended by {name}; starting another, which goes on where it was")

    def request_stop(self) -> None:
        """Ask for a drain; a second time, for an end at once."""
        self._signals_sent += 1
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)

    async def _one_life(self) -> int:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_COMMAND,
                cwd=_CHECKOUT,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._say(f"worker {self.pid} starts")
        if self._signals_sent:  # asked for while it was being started
            self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    def _end_of_log(self) -> str:
        with self._log.open(errors="replace") as lines:
            return "".join(deque(lines, _LAST_LINES))
