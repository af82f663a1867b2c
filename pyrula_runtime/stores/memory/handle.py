"""What every part of a store in memory stands on: a lock round each verb, the clock, how a run comes and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.memory.world import Run, World
from pyrula_runtime.stores.undivided import Undivided

Handle = TypeVar("Handle", bound="MemoryHandle")
Answer = TypeVar("Answer")
Args = ParamSpec("Args")


def verb(
    work: Callable[Concatenate[Handle, Args], Answer],
) -> Callable[Concatenate[Handle, Args], asyncio.Future[Answer]]:
    """Make a verb of a plain method: atomic, answered by a future of the running loop."""

    def answer(store: Handle, /, *args: Args.args, **kwargs: Args.kwargs) -> asyncio.Future[Answer]:
        store.check_open()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with store.world.mutex:
            try:
                future.set_result(work(store, *args, **kwargs))
            except UsageError as error:
                future.set_exception(error)
        return future

    return answer


class MemoryHandle(Undivided):
    """A handle on a `World`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._open = False

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    def check_open(self) -> None:
        if not self._open:
            raise UsageError("the store is not open; await its open() first")

    @property
    def _wall_ms(self) -> int:
        return self.world.clock.wall_ms()

    @property
    def _mono_ms(self) -> int:
        return self.world.clock.mono_ms()

    def _submit(self, run: p.NewRun) -> p.Submitted:
        world = self.world
        world.sign_of_life()
        if run.idempotency_key in world.keys:
            run_id, digest, expires_ms = world.keys[run.idempotency_key]
            if expires_ms > self._wall_ms:
                return _already(run_id, digest, run)
        if run.run_id in world.runs:
            return _already(run.run_id, world.runs[run.run_id].new.digest, run)
        made = Run(
            new=run,
            created_ms=self._wall_ms,
            status=run.status,
            input=run.input,
            journal=list(run.journal),
            generation=run.generation,
        )
        world.runs[run.run_id] = made
        if run.idempotency_key is not None:
            world.keys[run.idempotency_key] = (run.run_id, run.digest, self._wall_ms + run.idempotency_ttl_ms)
        if run.start_at_ms is None:
            world.wake(p.Wake.ready)
        else:
            made.ready = False
            self._wait(made, run.start_at_ms)
        return p.Submitted(run_id=run.run_id, submission=p.Submission.created)

    def _wait(self, run: Run, due_ms: int | None, hears: str | None = None) -> None:
        run.due_ms, run.hears = due_ms, hears
        if due_ms is None or not self.world.listeners:
            return
        others = [each.due_ms for each in self.world.runs.values() if each is not run and each.due_ms is not None]
        if not others or due_ms < min(others):
            self.world.wake(p.Wake.timer)

    def _go_on(self, run: Run, status: RunStatus) -> None:
        run.status, run.ready, run.due_ms, run.hears = status, True, None, None
        self.world.wake(p.Wake.ready)


def _already(run_id: str, digest: str, run: p.NewRun) -> p.Submitted:
    same = digest == run.digest
    return p.Submitted(run_id=run_id, submission=p.Submission.existing if same else p.Submission.conflict)


def page_of(entries: Sequence[bytes], max_bytes: int) -> int:
    """How many entries from the first make a page: whole ones, at least one if any."""
    size = 0
    for number, entry in enumerate(entries):
        size += len(entry)
        if number and size > max_bytes:
            return number
    return len(entries)
