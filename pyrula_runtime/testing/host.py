"""The host of a simulation: its thread and clock, its store, the worker there, and one caller at a time.

A caller's thread waits while the host's thread does what was asked. After each call everything that can happen at the
present time has happened, so nothing goes on between two calls.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pyrula_runtime.client.workflow_client import WorkflowClient
from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.engine.lane_thread import LaneThread
from pyrula_runtime.engine.presence import Unrecorded
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from pyrula_runtime.stores.protocol import Fact, RunRecord
from pyrula_runtime.testing.loop import SkippingLoop
from pyrula_runtime.testing.playing import Rest, play
from pyrula_runtime.testing.stage import Script, Stage

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(ms: int) -> datetime:
    """Milliseconds since the epoch as people write them, in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


class SimulatedClient(WorkflowClient):
    """The client of a simulation, which lives in its time."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._clock = store.world.clock

    def _now_ms(self) -> int:
        return self._clock.wall_ms()


class SimulatedHost:
    """All that one simulation is made of."""

    def __init__(self, script: Script, start: datetime, patience_s: float) -> None:
        self._home = LaneThread(Unrecorded(), self._failed, kind=SkippingLoop)
        loop = self._home.loop
        assert isinstance(loop, SkippingLoop)
        with ExitStack() as undone:  # if a workflow cannot be served
            undone.callback(loop.close)
            self._equip(loop, script, start)
            undone.pop_all()
        self._patience_s = patience_s
        self._fault: BaseException | None = None
        self._one_at_a_time = threading.Lock()
        self._is_closed = False
        self._home.thread.start()
        self.call(self._open)

    def _equip(self, loop: SkippingLoop, script: Script, start: datetime) -> None:
        self.loop = loop
        self.clock = loop.clock
        self.clock.set_wall(round((start - _EPOCH) / timedelta(milliseconds=1)) - self.clock.wall_ms())
        self.world = World(self.clock)
        self.store = MemoryStore(self.world)
        self.client = SimulatedClient(self.store)
        self.stage = Stage(self._home, self.store, script)

    async def _open(self) -> None:
        await self.store.open()
        self.stage.open()

    def close(self) -> None:
        """End the worker and the thread. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self.loop.call_soon_threadsafe(self.stage.close)
        self._home.stop()
        self._home.thread.join()

    def call(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do this on the host's thread, and wait for it."""
        if self._is_closed:
            raise UsageError("this simulation has been closed: use it inside of its with block")
        if threading.get_ident() == self._home.thread.ident:
            raise UsageError("a simulation cannot be asked to go on by code that runs in it, such as a step")
        with self._one_at_a_time:
            future = asyncio.run_coroutine_threadsafe(act(), self.loop)
            try:
                return future.result()
            finally:
                future.cancel()  # an interrupt ended the wait; after an answer it does nothing

    def play(self, is_content: Callable[[], bool], for_ms: int | None) -> Rest:
        """Go on, as `playing.play` has it, for at most so much time (None: any)."""

        async def act() -> Rest:
            self.loop.deadline_s = time.monotonic() + self._patience_s
            limit_ms = None if for_ms is None else self.clock.wall_ms() + for_ms
            return await play(self.stage, self.loop, is_content, limit_ms)

        rest = self.call(act)
        if self._fault is not None:
            raise self._fault
        return rest

    def crash(self) -> None:
        """Crash the worker before it does anything else."""

        async def act() -> None:
            self.stage.crash()

        self.call(act)

    def records(self, *, only_open: bool = False) -> list[RunRecord]:
        """All runs, or those that have not ended, in the order in which they were submitted; also after the end."""
        with self.world.mutex:
            records = [self.store.record(run) for run in self.world.runs.values()]
        return [each for each in records if not (only_open and each.status.is_terminal)]

    def record(self, run_id: str) -> RunRecord:
        """A run as it stands; also after the end."""
        with self.world.mutex:
            return self.store.record(self.world.runs[run_id])

    def journal(self, run_id: str) -> list[bytes]:
        """The journal of a run; also after the end."""
        with self.world.mutex:
            return list(self.world.runs[run_id].journal)

    def facts(self, run_id: str) -> list[Fact]:
        """What a run has told; also after the end."""
        with self.world.mutex:
            return list(self.world.runs[run_id].facts)

    @property
    def now(self) -> datetime:
        """What the clock shows."""
        return moment(self.clock.wall_ms())

    def _failed(self, error: BaseException) -> None:
        self._fault = error
