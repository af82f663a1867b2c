"""A storm over one store: workers that are killed, stopped and drained at random, clients that submit and cancel.

All chance comes from one seed, so a storm can be repeated: the same workers meet the same blows in the same order with
the same pauses, and only the machine decides what each blow hits. When the time is up the workers are killed once
more, and clean ones bring everything to its end.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyrula.workflows import IdempotencyConflict, IllegalTransition, RunNotFound, WorkflowClient
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.sqlite.backup import backup
from pyrula_runtime.stores.sqlite.checks import check as verify
from tests.faults.check_history import History, check, history_of
from tests.faults.history import final_runs, load, recorded
from tests.faults.world import BRISK, Process, World

WORKERS, CLIENTS = 4, 3
OPTIONS: dict[str, Any] = BRISK | {
    "orphan_scan_interval": 0.5,
    "max_concurrent_turns": 8,
    "shutdown_grace": 0.5,
    "cancel_timeout": 0.5,
}
ATTEMPTS = {"third_time_lucky#1": 3}
WORKFLOWS = ("ten", "side by side", "plain", "lucky", "failing", "overdue", "dawdling", "dawdling")
# of a thousand calls to the store, how many are sent twice, and how many answers are lost
SHARE = 0.005
# what the last run may take after the last blow: a lock's life, a scan, a stray's two looks, and the work itself; and
# suspects, of which each worker takes one every five seconds: the longer the storm, the more
BOUND_S = 20.0
BOUND_OF_LENGTH = 1.5


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the storm did, to show that it was one."""

    kills: int = 0
    stops: int = 0
    drains: int = 0
    cancels: int = 0
    requeues: int = 0
    backups: int = 0
    upsets: int = 0
    runs: set[str] = field(default_factory=set)

    def told(self) -> str:
        """For people."""
        blows = f"{self.kills} kills, {self.stops} stops, {self.drains} drains"
        acts = f"{self.cancels} cancels, {self.requeues} requeues, {self.backups} backups, {self.upsets} upsets"
        return f"{blows}; {len(self.runs)} runs, {acts}"


class Storm:
    """One storm; `rage` does it all."""

    def __init__(self, world: World, seed: int, length_s: float) -> None:
        self.tally = Tally()
        self._world = world
        self._seed = seed
        self._ends = time.monotonic() + length_s
        self._bound_s = BOUND_S + BOUND_OF_LENGTH * max(0.0, length_s - 12)
        self._histories: list[Path] = []
        self._lives = 0
        self._faults: list[str] = []

    async def rage(self) -> list[str]:
        """Blow for the given time, let everything come to its end, and say what is wrong."""
        world = self._world
        slots = [self._worker(random.Random(f"{self._seed} worker {slot}")) for slot in range(WORKERS)]
        clients = [self._client(random.Random(f"{self._seed} client {number}")) for number in range(CLIENTS)]
        last = [process for process in await asyncio.gather(*slots, *clients) if process is not None]
        await asyncio.gather(*(process.kill() for process in last))
        calm_s = time.monotonic()
        clean = [await self._start(0) for _ in range(WORKERS)]
        await asyncio.gather(*(world.ended(run, 3 * self._bound_s) for run in self.tally.runs))
        codes = await asyncio.gather(*(process.drain() for process in clean))
        history = history_of(load(self._histories), await final_runs(world.store), calm_s=calm_s, bound_s=self._bound_s)
        self._faults += [f"a clean worker ended with {code}" for code in codes if code != 0]
        return self._faults + check(history) + list(world.problems()) + self._wrong_marks(history)

    def _wrong_marks(self, history: History) -> list[str]:
        """Under each claim every attempt of a step is made at most once."""
        return [
            f"run {run_id} was claimed {run.fence} times, and its {operation} was done {times} times"
            for run_id, run in history.final.items()
            for operation, times in self._world.marks(run_id).items()
            if times > run.fence * ATTEMPTS.get(operation, 1)
        ]

    def _history(self, name: str) -> Path:
        path = self._world.directory / f"{name}.history"
        self._histories.append(path)
        return path

    # workers

    async def _start(self, share: float) -> Process:
        self._lives += 1
        name = f"life{self._lives}"
        return await self._world.start(
            options=OPTIONS,
            name=name,
            history=str(self._history(name)),
            seed=self._seed * 1000 + self._lives,
            share=share,
        )

    async def _worker(self, chance: random.Random) -> Process | None:
        """One place for a worker: whoever is in it meets a blow now and then, and is replaced."""
        blows: list[Callable[[Process, random.Random], Coroutine[Any, Any, None]]]
        blows = [self._kill, self._kill, self._kill, self._stop, self._drain]
        worker = await self._start(SHARE)
        while True:
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            if time.monotonic() > self._ends:
                return worker
            await chance.choice(blows)(worker, chance)
            if worker.code is not None:
                worker = await self._start(SHARE)

    async def _kill(self, worker: Process, _chance: random.Random) -> None:
        await worker.kill()
        self.tally.kills += 1

    async def _stop(self, worker: Process, chance: random.Random) -> None:
        worker.send(signal.SIGSTOP)
        await asyncio.sleep(BRISK["lock_ttl"] * chance.uniform(0.3, 1.5))
        worker.send(signal.SIGCONT)
        self.tally.stops += 1

    async def _drain(self, worker: Process, _chance: random.Random) -> None:
        worker.send(signal.SIGTERM)
        await worker.ended()
        self.tally.drains += 1

    # clients

    async def _client(self, chance: random.Random) -> None:
        name = f"client{chance.random()}"
        store = recorded(open_store(self._world.url), self._history(name), name)
        async with WorkflowClient(store) as client:
            while time.monotonic() < self._ends:
                await asyncio.sleep(chance.uniform(0.005, 0.06))
                await self._act(client, chance)

    async def _act(self, client: WorkflowClient, chance: random.Random) -> None:
        known = sorted(self.tally.runs)
        what = chance.random()
        try:
            if what < 0.6 or not known:
                await self._submit(client, chance)
            elif what < 0.75:
                await client.cancel(chance.choice(known))
                self.tally.cancels += 1
            elif what < 0.8:
                await client.requeue(chance.choice(known))
                self.tally.requeues += 1
            elif what < 0.95:
                await client.describe(chance.choice(known))
            elif what < 0.98:
                await client.list(limit=50)
            elif (upset := self._world.kept.upset) is not None:
                await asyncio.to_thread(upset, chance)
                self.tally.upsets += 1
            else:
                await self._back_up()
        except (IllegalTransition, IdempotencyConflict, RunNotFound):
            return  # it had ended, its key was taken, or its journal is not to be had: all of it answers
        except StoreUnavailable:
            return  # an upset took the connection: it may be done or not, and the history says so

    async def _back_up(self) -> None:
        """Take a copy in the thick of it; what is wrong with it is kept for the end."""
        self.tally.backups += 1
        target = self._world.directory / f"backup{self.tally.backups}"
        await asyncio.to_thread(backup, self._world.path, target)
        self._faults += [f"backup: {problem}" for problem in await asyncio.to_thread(verify, target)]

    async def _submit(self, client: WorkflowClient, chance: random.Random) -> None:
        """Half of the submits have a key, and keys are few, so that many of them meet."""
        key = f"key {chance.randrange(50)}" if chance.random() < 0.5 else None
        workflow = chance.choice(WORKFLOWS)
        handle = await client.submit(workflow, {"effects": str(self._world.effects)}, idempotency_key=key)
        self.tally.runs.add(handle.run_id)
