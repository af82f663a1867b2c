"""Queues on one server, as their manuals start them: worker commands, client, how many jobs make a figure."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench import Home, Launch
from benchmarks.inside.jobs import CONCURRENCY_VARIABLE, URL_VARIABLE
from benchmarks.systems.environments import environment
from benchmarks.systems.valkey import Server

_INSIDE = "benchmarks.inside"
_SETTLE_S = 3.0
_WARM_JOBS = 20

# worker processes, jobs at once in each (None: its default) -> commands, as arguments of the peer's Python
Commands = Callable[[int, int | None], Sequence[Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One queue: `jobs` fill about three seconds; a client that is not `abreast` submits one after another."""

    name: str
    module: str
    commands: Commands
    jobs: int
    env: str = ""  # the product's own, if empty
    abreast: bool = True
    polls: bool = False
    done: Sequence[str] = ()  # the command that counts what it knows as done, where it keeps that

    @property
    def in_flight(self) -> int:
        """How many submits its client can have under way."""
        return 50 if self.abreast else 1

    @property
    def python(self) -> str:
        """The Python that has it."""
        return environment(self.env) if self.env else sys.executable


class Running:
    """A queue with its server in a home."""

    def __init__(self, home: Home, peer: Peer) -> None:
        self.home, self.peer = home, peer
        self.server = Server(home)
        self.workers: list[subprocess.Popen[bytes]] = []

    def client(self, *arguments: str, env: Mapping[str, str] | None = None) -> Launch:
        """A client, see `benchmarks.load.obey`."""
        return self._launch(["-m", self.peer.module, *arguments], env or {})

    def fill(self, job: str, count: int, in_flight: int) -> Launch:
        """A client that submits so many jobs."""
        return self.client("fill", job, str(count), str(in_flight))

    def work(self, procs: int, concurrency: int | None = None, env: Mapping[str, str] | None = None) -> None:
        """Start workers."""
        at_once = {} if concurrency is None else {CONCURRENCY_VARIABLE: str(concurrency)}
        for command in self.peer.commands(procs, concurrency):
            self.workers.append(self.home.start(self._launch(command, {**at_once, **(env or {})})))

    def warm(self) -> None:
        """Have some jobs done, and let it come to rest."""
        self.home.ask(self.fill("noop", _WARM_JOBS, 1))
        self.home.wait_for("begin", _WARM_JOBS)
        time.sleep(_SETTLE_S)
        self.home.tape.forget()

    def said(self) -> list[str]:
        """What the workers' logs say."""
        return [self.home.said(worker) for worker in self.workers]

    def _launch(self, arguments: Sequence[str], env: Mapping[str, str]) -> Launch:
        argv = [self.peer.python, *(each.format(url=self.server.url) for each in arguments)]
        return Launch(argv=argv, env={URL_VARIABLE: self.server.url, **env})


def _each(*arguments: str) -> Commands:
    """A command a process."""
    return lambda procs, _: [["-m", *arguments]] * procs


def _pyrula(procs: int, concurrency: int | None) -> Sequence[Sequence[str]]:
    command = [str(Path(sys.executable).with_name("pyrula")), "worker", "--workflow", PYRULA.module, "--store", "{url}"]
    most = [] if concurrency is None else ["--max-concurrent-runs", str(concurrency)]
    return [[*command, *most]] * procs


def _taskiq(kind: str) -> Commands:
    def commands(procs: int, concurrency: int | None) -> Sequence[Sequence[str]]:
        most = [] if concurrency is None else ["--max-async-tasks", str(concurrency)]
        return [["-m", "taskiq", "worker", f"{_INSIDE}.taskiq_{kind}_queue:broker", "-w", str(procs), *most]]

    return commands


def _dramatiq(procs: int, concurrency: int | None) -> Sequence[Sequence[str]]:
    most = [] if concurrency is None else ["--threads", str(concurrency)]
    return [["-m", "dramatiq", f"{_INSIDE}.dramatiq_queue", "--processes", str(procs), *most]]


def _huey(procs: int, concurrency: int | None) -> Sequence[Sequence[str]]:
    command = ["-m", "huey.bin.huey_consumer", f"{_INSIDE}.huey_queue.huey"]
    if concurrency is None:
        return [[*command, "-k", "process", "-w", str(procs)]]
    return [[*command, "-k", "thread", "-w", str(concurrency)]] * procs


def _celery(procs: int, concurrency: int | None) -> Sequence[Sequence[str]]:
    command = ["-m", "celery", "-A", f"{_INSIDE}.celery_queue", "worker"]
    if concurrency is None:
        return [[*command, "-c", str(procs)]]
    return [[*command, "-n", f"{n}@%h", "-P", "threads", "-c", str(concurrency)] for n in range(procs)]


PYRULA = Peer(
    name="Pyrula",
    module=f"{_INSIDE}.pyrula_queue",
    commands=_pyrula,
    jobs=15_000,
    done=("ZCARD", "py:{default:0}:l:completed:noop"),
)
LEAST = Peer(
    name="least possible",
    module=f"{_INSIDE}.least_queue",
    commands=_each(f"{_INSIDE}.least_queue", "serve"),
    jobs=100_000,
)
PEERS = (
    Peer(
        name="arq",
        module=f"{_INSIDE}.arq_queue",
        env="queues",
        commands=_each("arq", f"{_INSIDE}.arq_queue.Settings"),
        jobs=1_000,
        polls=True,
    ),
    Peer(
        name="saq",
        module=f"{_INSIDE}.saq_queue",
        env="queues",
        commands=lambda procs, _: [["-m", "saq", f"{_INSIDE}.saq_queue.settings", "--workers", str(procs)]],
        jobs=8_000,
    ),
    Peer(
        name="taskiq, list", module=f"{_INSIDE}.taskiq_list_queue", env="taskiq", commands=_taskiq("list"), jobs=15_000
    ),
    Peer(
        name="taskiq, stream",
        module=f"{_INSIDE}.taskiq_stream_queue",
        env="taskiq",
        commands=_taskiq("stream"),
        jobs=12_000,
    ),
    Peer(
        name="streaq",
        module=f"{_INSIDE}.streaq_queue",
        env="brokers",
        commands=lambda procs, _: [["-m", "streaq", "run", "--workers", str(procs), f"{_INSIDE}.streaq_queue:worker"]],
        jobs=4_000,
    ),
    Peer(
        name="dramatiq",
        module=f"{_INSIDE}.dramatiq_queue",
        env="brokers",
        commands=_dramatiq,
        jobs=10_000,
        abreast=False,
        polls=True,
    ),
    Peer(name="huey", module=f"{_INSIDE}.huey_queue", env="brokers", commands=_huey, jobs=10_000, abreast=False),
    Peer(name="Celery", module=f"{_INSIDE}.celery_queue", env="brokers", commands=_celery, jobs=3_000, abreast=False),
    Peer(
        name="rq",
        module=f"{_INSIDE}.rq_queue",
        env="brokers",
        commands=lambda procs, _: [["-m", "rq.cli", "worker-pool", "-n", str(procs), "--url", "{url}"]],
        jobs=400,
        abreast=False,
    ),
)
ALL = (PYRULA, LEAST, *PEERS)
