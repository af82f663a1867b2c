"""A test's own small world: a store, a runtime directory, processes that the forge makes in it, gates for their steps.

Nothing here sleeps and hopes. A process, a gate, a run's end are awaited; the limit is there for what is broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

from pyrula.workflows import WorkflowClient
from pyrula_runtime.core import ids
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import NewRun, RunQuery, RunRecord, Submitted, Wake
from pyrula_runtime.stores.sqlite.checks import check
from tests.faults.history import whole_journal
from tests.faults.plan import Point

# after this long something that should come is taken as missing (seconds)
LIMIT_S = 60.0
# locks that live for a second and a half, and the ladder of a blocked lane below it
BRISK = {
    "lock_ttl": 1.5,
    "block_warn": 0.4,
    "replace_after": 1.2,
    "shard_lease_ttl": 1.5,
    "shard_lease_interval": 0.5,
}


class Process:
    """A forged process, seen from the test."""

    def __init__(self, name: str, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.pid = pid
        self.events: list[dict[str, Any]] = []
        self.code: int | None = None
        self._writer = writer
        self._news = asyncio.Condition()
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            told = json.loads(line)
            async with self._news:
                if "exit" in told:
                    self.code = told["exit"]
                else:
                    self.events.append(told)
                self._news.notify_all()
        self._writer.close()

    async def told(self, event: str, **more: Any) -> dict[str, Any]:
        """Wait until the process has told this."""
        return await self._nth_told({"event": event} | more, 1)

    async def crossed(self, verb: str, nth: int) -> None:
        """Wait until the process has told for the n-th time that it crossed the seam with this verb."""
        await self._nth_told({"event": "crossed", "verb": verb}, nth)

    async def _nth_told(self, wanted: dict[str, Any], nth: int) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S), self._news:
            while True:
                told = [each for each in self.events if wanted.items() <= each.items()]
                if len(told) >= nth:
                    return told[nth - 1]
                assert self.code is None, f"{self.name} ended with {self.code} before it told {wanted}"
                await self._news.wait()

    async def ended(self, limit_s: float = LIMIT_S) -> int:
        """Wait until the process is dead: its exit code, negative for a signal."""
        async with asyncio.timeout(limit_s), self._news:
            while self.code is None:
                await self._news.wait()
        return self.code

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def probe(self, path: str) -> tuple[int, dict[str, str]]:
        """Ask a probe of a worker that was started with probes: status and body."""
        url = (await self.told("probes"))["url"]
        async with httpx.AsyncClient() as client:
            answer = await client.get(url + path)
        return answer.status_code, answer.json()

    async def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.send(signal.SIGKILL)
        await self.ended()

    async def drain(self) -> int:
        """SIGTERM, once it serves, and wait for the end."""
        await self.told("serving")
        self.send(signal.SIGTERM)
        return await self.ended()

    async def close(self) -> None:
        """End it, however it is, and hear no more of it."""
        await self.kill()
        await self._listening


class Visit:
    """A step that stands at a gate."""

    def __init__(self, key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.key = key
        self._reader = reader
        self._writer = writer

    def let_in(self, word: str = "go") -> None:
        """Let the step go on; the word is its result."""
        self._writer.write(word.encode() + b"\n")
        self._writer.close()

    async def given_up(self) -> None:
        """Wait until the step has gone away, cancelled or dead."""
        async with asyncio.timeout(LIMIT_S):
            assert await self._reader.read() == b""
        self._writer.close()


class Gate:
    """Where steps tell that they run, and wait."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._visits: asyncio.Queue[Visit] = asyncio.Queue()
        self._open: list[asyncio.StreamWriter] = []

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_unix_server(self._came, self.path)

    async def _came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        key = (await reader.readline()).decode().strip()
        if key:
            self._visits.put_nowait(Visit(key, reader, writer))

    async def visit(self) -> Visit:
        """The next step that comes."""
        async with asyncio.timeout(LIMIT_S):
            return await self._visits.get()

    @property
    def is_quiet(self) -> bool:
        """Whether nobody stands here whom the test has not seen."""
        return self._visits.empty()

    async def close(self) -> None:
        """Turn everybody away."""
        self._server.close()
        for writer in self._open:
            writer.close()
        await self._server.wait_closed()


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the runs of a world are kept.

    `audit` says how the store contradicts itself; `upset` does something to its server that nobody should notice, and
    `halt` lets the server answer nobody for so many seconds.
    """

    url: str
    audit: Callable[[], Sequence[str]]
    upset: Callable[[random.Random], None] | None = None
    halt: Callable[[float], None] | None = None


class World:
    """One store and all that happens around it."""

    def __init__(self, directory: Path, forge: Path, isolation: str = "lane", kept: Kept | None = None) -> None:
        """`isolation` is where its workers run async turns; without `kept` the store is a file of its own."""
        self.directory = directory
        self.path = directory / "s.db"
        self.kept = kept or Kept(f"sqlite:///{self.path}", lambda: check(self.path))
        self.url = self.kept.url
        self.effects = directory / "effects"
        self.store = open_store(self.url)
        self.client = WorkflowClient(self.store)
        self._forge = forge
        self._isolation = isolation
        self._processes: list[Process] = []
        self._gates: list[Gate] = []

    async def open(self) -> None:
        """Open the test's own way to the store."""
        (self.directory / "run").mkdir(mode=0o700)
        await self.store.open()

    async def close(self) -> None:
        """End everything."""
        for process in self._processes:
            await process.close()
        for gate in self._gates:
            await gate.close()
        await self.store.close()

    async def gate(self) -> Gate:
        """A new gate."""
        gate = Gate(self.directory / f"gate{len(self._gates)}")
        await gate.open()
        self._gates.append(gate)
        return gate

    # processes

    async def start(
        self,
        *faults: Point,
        options: Mapping[str, Any] | None = None,
        name: str = "",
        **order: Any,
    ) -> Process:
        """Start a process with these faults, a worker unless `role` says otherwise; it may not serve yet on return."""
        name = name or f"w{len(self._processes)}"
        told = {
            "name": name,
            "role": "worker",
            "store": self.url,
            "runtime": str(self.directory / "run"),
            "log": str(self.directory / f"{name}.log"),
            "options": {"isolation": self._isolation, **(options or {})},
            "faults": [point.told() for point in faults],
        }
        reader, writer = await asyncio.open_unix_connection(self._forge)
        writer.write(json.dumps(told | order).encode() + b"\n")
        pid = json.loads(await reader.readline())["pid"]
        process = Process(name, pid, reader, writer)
        self._processes.append(process)
        return process

    # runs

    async def submit(self, workflow: str, *, key: str | None = None, **given: Any) -> str:
        """Submit a run of a workflow that leaves its marks in this world; its id."""
        return (await self.submitted(workflow, key=key, **given)).run_id

    async def submitted(self, workflow: str, *, key: str | None = None, **given: Any) -> Submitted:
        """The same, with the whole answer."""
        raw = orjson.dumps({"effects": str(self.effects)} | given)
        run = NewRun(
            run_id=ids.run_id(time.time_ns() // 1_000_000, secrets.token_bytes(10)),
            workflow=workflow,
            version=None,
            input=raw,
            digest=ids.input_digest(workflow, raw),
            status=RunStatus.queued,
            idempotency_key=key,
        )
        return await self.store.submit(run)

    async def runs(self) -> Sequence[RunRecord]:
        """All runs of this world."""
        return await self.store.find(RunQuery(limit=1000))

    async def read(self, run_id: str) -> RunRecord:
        """The run as it stands."""
        record = await self.store.read(run_id)
        assert record is not None, f"run {run_id} is gone"
        return record

    async def ticked(self) -> None:
        """Wait for the next wake of any kind; one that looks at the file comes every second."""
        woken = asyncio.Event()
        listening = self.store.listen(lambda wake: woken.set())
        try:
            async with asyncio.timeout(LIMIT_S):
                await woken.wait()
        finally:
            listening.close()

    async def ended(self, run_id: str, limit_s: float = LIMIT_S) -> RunRecord:
        """Wait until the run has ended."""
        woken = asyncio.Event()
        listening = self.store.listen(lambda wake: woken.set(), frozenset({Wake.ended}))
        try:
            async with asyncio.timeout(limit_s):
                while not (record := await self.read(run_id)).status.is_terminal:
                    await woken.wait()
                    woken.clear()
                return record
        finally:
            listening.close()

    async def lived_through(self, run_id: str, worker: Process) -> bool:
        """Whether a worker brought the run to its end and then drained; if not, it has killed itself on the way."""
        dead = asyncio.create_task(worker.ended())
        done = asyncio.create_task(self.ended(run_id))
        await asyncio.wait((dead, done), return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        code = await dead if dead.done() else await worker.drain()
        await dead
        assert code in (0, -signal.SIGKILL), f"{worker.name} ended with {code}"
        return code == 0

    async def journal(self, run_id: str) -> list[dict[str, Any]]:
        """The journal's entries without their times, which differ from run to run."""
        entries = [orjson.loads(raw) for raw in await whole_journal(self.store, run_id)]
        return [{key: value for key, value in entry.items() if key not in ("at", "r")} for entry in entries]

    def marks(self, run_id: str) -> Counter[str]:
        """How often each operation of the run has left its mark."""
        if not self.effects.exists():
            return Counter()
        lines = self.effects.read_text().splitlines()
        return Counter(line.partition(":")[2] for line in lines if line.startswith(f"{run_id}:"))

    def log(self, process: Process) -> str:
        """What a process has logged."""
        return (self.directory / f"{process.name}.log").read_text()

    def boxes(self) -> list[Path]:
        """The black boxes of workers that live, or that nobody has buried yet."""
        return sorted((self.directory / "run").rglob("*.box"))

    def problems(self) -> Sequence[str]:
        """What the store's own check finds."""
        return self.kept.audit()


NewWorld = Callable[[], AbstractAsyncContextManager[World]]
