"""Queues with two worker processes each, as the neighbours of a blocked job know them: started, submitted to, heard.

The peers are on a server, Pyrula has its embedded store. All have their defaults.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

from benchmarks.bench import Home, Launch, module
from benchmarks.inside.jobs import BLOCK_VARIABLE, URL_VARIABLE
from benchmarks.systems.peers import PEERS, PYRULA, Peer, Running
from benchmarks.systems.supervisor import Given, Supervised, supervised

PROCS = 2
_SETTLE_S = 3.0
# what a line of a log holds where something is wrong
_LOUD = ("WARN", "ERROR", "CRITICAL")


class Queue(Protocol):
    """One queue that runs in a home."""

    def client(self, how: str, *numbers: int) -> Launch:
        """What submits to it, see `benchmarks.load.stream`."""

    def heard(self) -> str:
        """What it says of the job that blocks, by now; empty for nothing."""


class _Peer:
    """A queue on the server; it says what its workers' logs say."""

    def __init__(self, running: Running, env: Mapping[str, str]) -> None:
        self._running, self._env = running, env

    def client(self, how: str, *numbers: int) -> Launch:
        return self._running.client("stream", how, *map(str, numbers), env=self._env)

    def heard(self) -> str:
        lines = "\n".join(self._running.said()).splitlines()
        loud = [line for line in lines if any(word in line for word in _LOUD)]
        return f"{len(loud)} warnings" if loud else ""


class _Product:
    """Pyrula under its supervisor; it says what the status document says."""

    def __init__(self, supervisor: Supervised, env: Mapping[str, str]) -> None:
        self._supervisor, self._env = supervisor, env

    def client(self, how: str, *numbers: int) -> Launch:
        return Launch(argv=module(PYRULA.module, "stream", how, *map(str, numbers)).argv, env=self._env)

    def heard(self) -> str:
        rows = [row["blocked"] for row in self._supervisor.document()["children"] if row["blocked"]]
        return next((f"run and line {row['line'].rpartition('/')[2]}" for row in rows if row["run_id"]), "")


@contextmanager
def _pyrula(home: Home, block_s: int) -> Iterator[Queue]:
    env = {URL_VARIABLE: f"sqlite:///{home.db}", BLOCK_VARIABLE: str(block_s)}
    with supervised(home, Given(app=PYRULA.module, procs=PROCS, env=env)) as supervisor:
        supervisor.ready()
        supervisor.settled()
        time.sleep(_SETTLE_S)
        yield _Product(supervisor, env)


@contextmanager
def _on_server(peer: Peer, home: Home, block_s: int) -> Iterator[Queue]:
    env = {BLOCK_VARIABLE: str(block_s)}
    running = Running(home, peer)
    running.work(PROCS, env=env)
    time.sleep(_SETTLE_S)
    yield _Peer(running, env)


_BESIDE = {"arq": "arq", "saq": "saq", "taskiq, stream": "taskiq"}
SYSTEMS: Mapping[str, Callable[[Home, int], AbstractContextManager[Queue]]] = {
    "Pyrula": _pyrula,
    **{_BESIDE[peer.name]: partial(_on_server, peer) for peer in PEERS if peer.name in _BESIDE},
}
