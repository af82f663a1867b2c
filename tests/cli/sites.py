"""A place of its own for the command line: a folder with an app in it, an environment, and the processes started there.

A worker is waited for by what it says: each line of its log is an event.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyrula.workflows import open_store
from pyrula.workflows.sync import WorkflowClient

PYRULA = [sys.executable, "-m", "pyrula_runtime.cli"]
# how long anything may take before a test fails instead of hanging (seconds)
PATIENCE_S = 60.0

APP = '''
"""Workflows for the tests of the command line."""
import asyncio
import logging
from pathlib import Path

from pyrula.workflows import OnEvent, Schedule, step, workflow

log = logging.getLogger("app")


@step
def double(x: int) -> int:
    return 2 * x


@step
def fails() -> None:
    raise ValueError("no such customer")


@step
def wait_for(gate: str) -> str:
    """Wait, in a thread, until somebody writes into the gate."""
    log.info("waits at the gate")
    return Path(gate).read_text()


@step
async def wait_for_ever() -> None:
    log.info("waits for ever")
    await asyncio.get_running_loop().create_future()


@step
def large() -> str:
    return "x" * 1_000_001


@workflow
async def order(ctx, x: int = 1) -> int:
    return await ctx.step(double, await ctx.step(double, x))


@workflow
async def approved(ctx) -> list:
    return [await ctx.wait_signal("approve"), await ctx.wait_signal("approve")]


@workflow
async def broken(ctx) -> None:
    await ctx.step(fails)


@workflow
async def held(ctx, gate: str) -> str:
    return await ctx.step(wait_for, gate)


@workflow
async def stuck(ctx) -> None:
    await ctx.step(wait_for_ever)


@workflow
async def not_json(ctx):
    return object()


@workflow
async def too_large(ctx) -> str:
    return await ctx.step(large)


@workflow(schedule=Schedule(cron="@yearly", timezone="Europe/Berlin"))
async def report(ctx, scheduled_at: str) -> str:
    return scheduled_at


@workflow(on_event=OnEvent("order.created", filter=lambda told: told["total"] > 9))
async def thanks(ctx, total: int) -> int:
    return total


@workflow(version="2")
async def pinned(ctx) -> str:
    return "done"


nothing = 1
'''


class Site:
    """A temporary folder from which commands are run; nothing of the person who runs the tests is seen there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = f"sqlite:///{folder / 'store' / 'pyrula.db'}"
        (folder / "app.py").write_text(APP)
        (folder / "run").mkdir(mode=0o700)
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        self.environ = kept | {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PYRULA_STORE_URL": self.store,
        }
        self._workers: list[Worker] = []

    def make_store(self) -> None:
        """Make the store, as the first worker would: commands that look for something in it make none."""
        with WorkflowClient(open_store(self.store)) as client:
            client.list()

    def pyrula(
        self, *args: str, given: str | None = None, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [*PYRULA, *args],
            cwd=self.folder,
            env=self.environ | dict(environ or {}),
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def answer(self, *args: str) -> str:
        """What a command that must succeed prints, without its newline."""
        done = self.pyrula(*args)
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip("\n")

    def document(self, *args: str) -> Any:
        """The JSON document that a command prints."""
        return json.loads(self.answer(*args, "--json"))

    def start(self, *args: str, target: str = "app", environ: Mapping[str, str] | None = None) -> Worker:
        """Start a worker; it may not serve yet."""
        process = subprocess.Popen(
            [*PYRULA, "worker", "--workflow", target, *args],
            cwd=self.folder,
            env=self.environ | dict(environ or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        worker = Worker(process)
        self._workers.append(worker)
        return worker

    def serving(self, *args: str, **environ: str) -> Worker:
        """Start a worker and wait until it serves."""
        worker = self.start(*args, environ=environ)
        worker.said(" serves ")
        return worker

    def gate(self) -> Path:
        """A pipe that the workflow `held` waits at."""
        path = self.folder / "gate"
        os.mkfifo(path)
        return path

    def close(self) -> None:
        """End what still runs."""
        for worker in self._workers:
            worker.end()


class Worker:
    """A running `pyrula worker` and what it has said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._coming: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._coming.put(line.rstrip("\n"))
        self._coming.put(None)

    def said(self, words: str) -> str:
        """The next line with these words, from what has not been asked for yet."""
        while (line := self._coming.get(timeout=PATIENCE_S)) is not None:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError(f"it ended without saying {words!r}:\n" + "\n".join(self.lines))

    def url(self) -> str:
        """Where its probes are."""
        found = re.search(r"http://\S+", self.said("probes answer on"))
        assert found is not None
        return found[0]

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def code(self) -> int:
        """Wait for its end; the exit code."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        while not self._coming.empty():
            if (line := self._coming.get()) is not None:
                self.lines.append(line)
        return code

    def stop(self) -> int:
        """Drain it; the exit code."""
        self.send(signal.SIGTERM)
        return self.code()

    def end(self) -> None:
        """Make sure that it runs no more."""
        self.process.kill()
        self.code()
        assert self.process.stderr is not None
        self.process.stderr.close()


def probe(url: str) -> tuple[int, dict[str, str]]:
    """Status and body of a probe."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
