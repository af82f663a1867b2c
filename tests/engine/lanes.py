"""Real lanes on a real store in a temporary folder, for tests of what only threads can show."""

from __future__ import annotations

import asyncio
import os
import queue
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyrula_runtime.core import ids
from pyrula_runtime.core.errors import InputError
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.presence import Presence, Unrecorded, mono_ms
from pyrula_runtime.engine.program import Program, StepCall
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.options import Isolation
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import NewRun, RunRecord, Store, Wake

CAPACITY = 4
LIMIT_S = 10.0  # only a failing test waits so long


def same(value: Any) -> Any:
    """Values of these tests are JSON already."""
    if isinstance(value, set):
        raise InputError("a set is no JSON")
    return value


def step(function: Callable[[], Any], **policy: Any) -> StepCall:
    """A step that calls `function`."""
    is_async = asyncio.iscoroutinefunction(function)
    return StepCall(name=function.__name__, call=function, is_async=is_async, to_json=same, from_json=same, **policy)


class LaneAtWork:
    """A worker's lanes, their store, and what they told the control thread; `lane` is the shared one."""

    def __init__(self, store: Store, lanes: Lanes, setup: LaneSetup) -> None:
        self.store = store
        self.lanes = lanes
        self.lane = lanes.shared
        self.setup = setup
        self.failures: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self.freed: queue.SimpleQueue[None] = queue.SimpleQueue()  # an item for each slot that came free
        self.ended = asyncio.Event()

    async def submit(self, workflow: str) -> str:
        """A new run of a program."""
        run_id = ids.run_id(time.time_ns() // 1_000_000, os.urandom(10))
        await self.store.submit(
            NewRun(run_id=run_id, workflow=workflow, version=None, input=b"null", digest="", status=RunStatus.queued)
        )
        return run_id

    async def claim(self) -> None:
        """Claim what there is and let the lanes have it."""
        free = self.setup.slots.take_all()
        claims = await self.store.claim(self.setup.claim_request(free))
        self.setup.slots.give(free - len(claims))
        self.lanes.take(claims)

    async def until_ended(self, run_id: str) -> RunRecord:
        """The run when it has ended or was paused."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                self.ended.clear()
                record = await self.store.read(run_id)
                assert record is not None
                if record.status.is_terminal:
                    return record
                await self.ended.wait()

    async def run(self, workflow: str) -> RunRecord:
        """Submit, claim, and wait for the end."""
        run_id = await self.submit(workflow)
        await self.claim()
        return await self.until_ended(run_id)


@asynccontextmanager
async def lane_at_work(
    folder: Path,
    programs: Sequence[Program],
    presence: Presence | None = None,
    isolation: Isolation = "lane",
    *,
    mono_ms: Callable[[], int] = mono_ms,
) -> AsyncIterator[LaneAtWork]:
    """Start lanes that serve these programs."""
    store = open_store(f"sqlite:///{folder / 'runs.db'}")
    await store.open()
    works: list[LaneAtWork] = []
    setup = LaneSetup(
        store=store,
        programs={program.name: program for program in programs},
        incarnation="test",
        slots=Slots(CAPACITY),
        lock_ttl_ms=30_000,
        mono_ms=mono_ms,
        on_free_slot=lambda: works[0].freed.put(None),
        on_outage=lambda error: None,
        on_failed=lambda error: works[0].failures.put(error),
        presence=presence or Unrecorded(),
    )
    at_work = LaneAtWork(store, Lanes(setup, isolation), setup)
    works.append(at_work)
    listening = store.listen(lambda wake: at_work.ended.set() if wake is Wake.ended else None)
    at_work.lanes.start()
    try:
        yield at_work
    finally:
        listening.close()
        at_work.lanes.stop()
        for lane in (at_work.lane, *(turn.lane for turn in at_work.lanes.isolated())):
            lane.thread.join(LIMIT_S)
        await store.close()
