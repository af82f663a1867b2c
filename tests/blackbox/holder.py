"""A real process that holds a black box and does what it is told, so that it can be stopped and killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import json, os, re, signal, subprocess, sys
from pathlib import Path
from pyrula_runtime import blackbox
from pyrula_runtime.blackbox import *
def create(incarnation, store="sqlite:////var/lib/pyrula.db"):
    directory = Path(sys.argv[1])
    return BlackBox.create(
        directory, incarnation=incarnation, worker_id="w", store_identity=store, now_ms=1_700_000_000_000
    )
names = globals()
for line in sys.stdin:
    names.pop("answer", None)
    exec(json.loads(line), names)
    print(json.dumps(names.get("answer")), flush=True)
"""
STORE = "sqlite:////var/lib/pyrula.db"


def wait_gone(pid: int) -> None:
    """Return once a process that need not be our child has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([fd], [], [])
    finally:
        os.close(fd)


class Holder:
    """Runs Python text sent to it, where `create` makes a box and `answer` is what `do` returns."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        self.pid = self._process.pid
        self.directory = directory
        self._orphans: list[int] = []

    def send(self, code: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def do(self, code: str) -> Any:
        self.send(code)
        return self.answer()

    def create(self, incarnation: str, store: str = STORE) -> Path:
        """Make the process hold a box, as `box` in its names."""
        return Path(self.do(f"box = create({incarnation!r}, {store!r})\nanswer = str(box.path)"))

    def outlived_by(self, code: str) -> int:
        """Let the process start another one (`answer` is its pid), which `end` will kill, too."""
        pid = self.do(code)
        self._orphans.append(pid)
        return int(pid)

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def died(self) -> int:
        """Wait for a process that kills itself; one that does not ends for want of orders."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait()

    def end(self) -> None:
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue  # it died before it had read everything
        for pid in self._orphans:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            wait_gone(pid)
