"""A rehearsal: the journal of a run replayed through code of today, with no effect on the run or on the world.

A copy of the run lives in a store in memory, whose clock stands still, and one lane of the engine takes it, the same
that workers have. So whatever a worker would say of journal and code is said here: that they do not fit, how the code
ends, or what it would do next. The moment a step would be performed, the rehearsal is over. The body itself does run,
and what it does beside durable operations is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.entries import Op
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.commons import Commons
from pyrula_runtime.engine.host import Performing
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.payloads import Payloads, written_ms
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.program import Program, StepCall
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from pyrula_runtime.stores.protocol import NewRun, RunRecord

_LOCK_TTL_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """How far the code came: how the copy stands then, and the steps that it would have performed next."""

    record: RunRecord
    next_steps: tuple[Op, ...]


class _Performed:
    """A step that nobody performs."""

    idle_until_ms: int | None = None

    def stop(self) -> None:
        """Nothing was begun."""


class _Stage(Lane):
    """A lane that begins no step."""

    short_ms = 0  # its clock stands still: no wait is ever over here

    def __init__(self, setup: LaneSetup, commons: Commons) -> None:
        super().__init__(setup, commons)
        self.next_steps: list[Op] = []

    def perform(self, turn: Turn, asked: Asked, call: StepCall) -> Performing:
        self.next_steps.append(asked.op)
        # once all that would begin together is known; the slot that comes free then ends the rehearsal
        self.loop.call_soon(self._unwind, turn.claim.token)
        return _Performed()


async def rehearse(record: RunRecord, journal: Sequence[bytes], program: Program, payloads: Payloads) -> Rehearsed:
    """Replay a run's journal through a program of its workflow; returns when the code can go no further."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    broken: list[BaseException] = []

    def end(error: BaseException | None = None) -> None:
        broken.extend([error] if error is not None else [])
        post(loop, over.set)

    store = await _store_with(record, journal)
    setup = LaneSetup(
        store=store,
        programs={program.name: program},
        incarnation="rehearsal",
        slots=Slots(1),
        lock_ttl_ms=_LOCK_TTL_MS,
        mono_ms=lambda: 0,
        on_free_slot=end,
        on_outage=end,
        on_failed=end,
        payloads=payloads,
    )
    commons = Commons(1)
    commons.no_successors.set()
    stage = _Stage(setup, commons)
    stage.start()
    try:
        setup.slots.take_all()
        stage.take(await store.claim(setup.claim_request(1)))
        await over.wait()
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(stage.settle(), stage.loop))
    finally:
        stage.stop()
        await asyncio.to_thread(stage.thread.join)
    if broken:
        raise broken[0]
    copy = await store.read(record.run_id)
    assert copy is not None
    return Rehearsed(record=copy, next_steps=tuple(stage.next_steps))


async def _store_with(record: RunRecord, journal: Sequence[bytes]) -> MemoryStore:
    """A store with a copy of the run, as it was when its last entry was written."""
    at_ms = max([record.started_ms or record.created_ms, *map(written_ms, journal[-1:])])
    world = World(ManualClock(at_ms))
    store = MemoryStore(world)
    await store.open()
    copy = NewRun(
        run_id=record.run_id,
        workflow=record.workflow,
        version=None,
        input=record.input,
        digest=record.digest,
        status=RunStatus.queued,
        journal=tuple(journal),
        generation=record.generation,
    )
    await store.submit(copy)
    world.runs[copy.run_id].started_ms = record.started_ms
    return store
