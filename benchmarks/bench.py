"""The bench: fresh folders on the disk under test, and the processes started in them.

A `Home` is one folder with a store, a tape and the logs of its processes. When it is left, every process started in it
is ended by its pid, and the folder is removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import descendants, send_all
from benchmarks.tape import VARIABLE, Note, Tape

CHECKOUT = Path(__file__).parents[1]
_LOOK_S = 0.005
_END_S = 5.0


class Unfit(Exception):
    """A process died or did not do in time what it was to do: there is no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command to start in a home."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def module(name: str, *args: str, python: str = sys.executable) -> Launch:
    """A module of this package as a command."""
    return Launch(argv=[python, "-m", name, *args])


class Home:
    """One folder and the processes in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = path / "store.db"
        self.tape = Tape(path / "tape")
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, launch: Launch) -> subprocess.Popen[bytes]:
        """Start a process; its output goes to a log of its own."""
        log = self.path / f"{len(self._started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                launch.argv, cwd=CHECKOUT, env={**self._environ(), **launch.env}, stdout=output, stderr=output
            )
        self._started.append(process)
        return process

    def ask(self, launch: Launch, patience_s: float = 300) -> dict[str, float]:
        """Run a process to its end; the figures that it prints as JSON in its last line."""
        process = self.start(launch)
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise Unfit(f"{launch.argv} took longer than {patience_s} s\n{self._tail(process)}") from None
        if code:
            raise Unfit(f"{launch.argv} ended with {code}\n{self._tail(process)}")
        answer: dict[str, float] = json.loads(self._log(process).read_text().splitlines()[-1])
        return answer

    def wait_for(
        self, what: str, count: int, patience_s: float = 120, meanwhile: Callable[[], object] = int
    ) -> list[Note]:
        """The notes of one kind, as soon as there are so many; `meanwhile` is called at each look."""
        deadline = time.monotonic() + patience_s
        while (found := self.tape.count(what)) < count:
            if time.monotonic() > deadline:
                tails = "\n".join(map(self._tail, self._started))
                raise Unfit(f"{found} of {count} times '{what}' within {patience_s} s\n{tails}")
            self._check()
            meanwhile()
            time.sleep(_LOOK_S)
        return self.tape.of(what)

    def span_s(self, first: str, last: str, count: int) -> float:
        """Seconds from the first note of one kind to the `count`th of another, which is waited for."""
        ends = self.wait_for(last, count)
        return (ends[count - 1].at_ns - self.tape.of(first)[0].at_ns) / 1e9

    def kill(self, process: subprocess.Popen[bytes]) -> int:
        """SIGKILL, and no longer watched for; when it was sent, in monotonic nanoseconds."""
        sent_ns = time.monotonic_ns()
        process.kill()
        process.wait()
        return sent_ns

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """What a process, and whoever writes to the same place, has said so far."""
        return self._log(process).read_text(errors="replace")

    def end(self) -> None:
        """End every process that still runs, and whom it has started: asked first, then killed."""
        alive = [process for process in self._started if process.poll() is None]
        started_by_them = [pid for process in alive for pid in descendants(process.pid)]
        for process in alive:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _END_S
        for process in alive:
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill(process)
        send_all(started_by_them, signal.SIGKILL)

    def _environ(self) -> dict[str, str]:
        """What processes see: nothing of the caller's but the path, and a home of their own."""
        folder = str(self.path)
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": folder,
            "XDG_STATE_HOME": folder,
            "XDG_RUNTIME_DIR": folder,
            "LANG": "C.UTF-8",
            VARIABLE: str(self.path / "tape"),
        }

    def _check(self) -> None:
        for process in self._started:
            code = process.poll()
            if code is not None and code not in (0, -signal.SIGKILL):
                raise Unfit(f"{process.args!r} ended with {code}\n{self._tail(process)}")

    def _log(self, process: subprocess.Popen[bytes]) -> Path:
        return self.path / f"{self._started.index(process)}.log"

    def _tail(self, process: subprocess.Popen[bytes]) -> str:
        return self.said(process)[-2_000:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Where homes are made, and whether figures are wanted or only a sign that all works."""

    folder: Path
    quick: bool = False

    def size(self, full: int, quick: int) -> int:
        """How many of something."""
        return quick if self.quick else full

    @contextmanager
    def home(self) -> Iterator[Home]:
        """A fresh home, gone afterwards with all that runs in it."""
        path = Path(tempfile.mkdtemp(dir=self.folder))
        home = Home(path)
        try:
            yield home
        finally:
            home.end()
            shutil.rmtree(path)
