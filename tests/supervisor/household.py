"""A supervisor as a real process (see host), its children, and what they say: each line is an event to wait for.

Runs do what a test tells them: they execute Python that comes as their input, on the lane or in a thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyrula.workflows.sync import WorkflowClient
from pyrula_runtime.stores.opening import open_store
from tests.supervisor.lines import environ_of

LIMIT_S = 60.0  # only a failing test waits so long

APP = '''
"""Workflows that execute what they are given."""
import asyncio, ctypes, os, re, signal, subprocess, sys, time
from pathlib import Path
from pyrula.workflows import step, workflow

@step
async def on_lane(code):
    exec(code, globals())
    return os.getpid()

@step
def in_thread(code):
    exec(code, globals())
    return os.getpid()

@workflow
async def lane(ctx, code: str) -> int:
    return await ctx.step(on_lane, code)

@workflow
async def thread(ctx, code: str) -> int:
    return await ctx.step(in_thread, code)

def hold_gil(seconds):
    """Wait in C without giving the GIL up."""
    libc, wait = ctypes.CDLL(None), ctypes.PyDLL(None).read
    clock = libc.timerfd_create(time.CLOCK_MONOTONIC, 0)
    libc.timerfd_settime(clock, 0, (ctypes.c_long * 4)(0, 0, *map(int, divmod(seconds * 1e9, 1e9))), None)
    wait(clock, ctypes.create_string_buffer(8), 8)  # a signal does not end it, as it would end a sleep
    os.close(clock)

def once(path):
    """Whether this is the first time."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
'''


class Household:
    """One supervisor and all that comes of it."""

    def __init__(self, folder: Path, app: str, policy: Mapping[str, Any], calling: Mapping[str, Any]) -> None:
        self.folder = folder
        (folder / "app.py").write_text(app)
        self.store_url: str = calling.get("store_url") or f"sqlite:///{folder / 'store' / 'runs.db'}"
        self.environ = environ_of(folder)
        given = {
            "policy": {"procs": 2, "start_method": "spawn", **policy},
            "calling": {"store_url": self.store_url, **calling},
        }
        self._given = json.dumps(given)
        self.lines: list[str] = []
        self._coming: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def start(self, *fds: int, **environ: str) -> None:
        """Start the supervisor, with these descriptors."""
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("host.py")), self._given],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=fds,
        )
        self._readers = [
            threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True),
            threading.Thread(target=self._read_told, args=(self.process.stdout,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_log(self, stream: Any) -> None:
        for line in stream:
            self._coming.put(line.rstrip("\n"))
        self._coming.put(None)

    def _read_told(self, stream: Any) -> None:
        for line in stream:
            with contextlib.suppress(ValueError):  # what a child prints
                self._told.put(json.loads(line))

    @property
    def pid(self) -> int:
        """The supervisor's pid."""
        return self.process.pid

    def said(self, pattern: str) -> re.Match[str]:
        """The next line of the log that fits, from what has not been asked for yet."""
        with contextlib.suppress(queue.Empty):
            while (line := self._coming.get(timeout=LIMIT_S)) is not None:
                self.lines.append(line)
                if found := re.search(pattern, line):
                    return found
            raise AssertionError(f"it ended without saying {pattern!r}:\n" + "\n".join(self.lines))
        raise AssertionError(f"nothing came for {LIMIT_S:.0f} s, {pattern!r} was awaited:\n" + "\n".join(self.lines))

    def ready(self, count: int = 2) -> dict[int, int]:
        """Wait until so many workers have become ready: their pids by slot."""
        pids: dict[int, int] = {}
        while len(pids) < count:
            slot, pid = self.said(r"worker (\d+) \(pid (\d+)\) is ready").groups()
            pids[int(slot)] = int(pid)
        return pids

    def told(self, key: str) -> Any:
        """The next thing of this kind that the reducer wanted told."""
        while True:
            told = self._told.get(timeout=LIMIT_S)
            if key in told:
                return told[key]

    def command(self, text: str) -> None:
        """Give a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def document(self) -> Any:
        """The status document, now."""
        self.command("document")
        return self.told("document")

    def children(self, **fields: Any) -> list[dict[str, Any]]:
        """The rows of the status document with these fields."""
        rows = self.document()["children"]
        return [row for row in rows if all(row[name] == value for name, value in fields.items())]

    def until(self, holds: Callable[[], Any]) -> Any:
        """Ask again, as often as something is told or a moment has passed, until it holds; what it gave."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if found := holds():
                return found
            with contextlib.suppress(queue.Empty):
                line = self._coming.get(timeout=0.05)
                if line is not None:
                    self.lines.append(line)
        raise AssertionError("it never came:\n" + "\n".join(self.lines))

    def client(self) -> WorkflowClient:
        """A client of the store."""
        return WorkflowClient(open_store(self.store_url))

    def send(self, number: signal.Signals) -> None:
        """A signal to the supervisor."""
        os.kill(self.pid, number)

    def code(self) -> int:
        """Wait for its end: its exit code."""
        code = self.process.wait(LIMIT_S)
        for reader in self._readers[:1]:
            reader.join(LIMIT_S)
        while not self._coming.empty():
            if (line := self._coming.get()) is not None:
                self.lines.append(line)
        return code

    def stop(self) -> int:
        """Drain: the exit code."""
        self.send(signal.SIGTERM)
        return self.code()

    def close(self) -> None:
        """End whatever is left."""
        if self.process.poll() is None:
            descendants = self.descendants()
            self.process.kill()
            self.process.wait(LIMIT_S)
            for pid in descendants:
                gone(pid)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def descendants(self) -> set[int]:
        """The pids of all that descends from the supervisor."""
        found: set[int] = set()
        new = {self.pid}
        while new:
            new = {child for pid in new for child in children_of(pid)} - found
            found |= new
        return found


@contextlib.contextmanager
def household(
    folder: Path,
    *fds: int,
    app: str = APP,
    calling: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    **policy: Any,
) -> Iterator[Household]:
    """A supervisor that is started; it ends with the test."""
    made = Household(folder, app, policy, calling or {})
    made.start(*fds, **environ or {})
    try:
        yield made
    finally:
        made.close()


def children_of(pid: int) -> list[int]:
    """The pids of the children of all threads of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def gone(pid: int, within_s: float = LIMIT_S) -> bool:
    """Wait until a process is dead, whoever reaps it."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(within_s * 1000))
    finally:
        os.close(pidfd)


def stat_of(pid: int) -> str:
    """The state of a process: a letter, or nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
