"""What runs cost a worker that is watched and one that is not: the same worker, in this process, over a real store.

Command line: `on` or `off`, how many runs. Off means that the lane's loop is asyncio's own, that nothing is written
into the black box, and that there is no watchdog; all else is the product. Only the processor's time of this process
counts, so neither disk nor neighbours are in it. Prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.load import fill
from pyrula.workflows import WorkflowClient, WorkflowContext, step, workflow
from pyrula_runtime import worker as workers
from pyrula_runtime.engine import lane_thread
from pyrula_runtime.engine.on_lane import OnLane
from pyrula_runtime.engine.posting import post
from pyrula_runtime.engine.presence import Presence, Unrecorded
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.worker import Worker, WorkerSetup
from pyrula_runtime.workflows.programs import program_of

_STEPS = 5
_AT_ONCE = 50


class Progress:
    """How many runs have passed their last line, and the processor's time at the first and the last one."""

    def __init__(self) -> None:
        self.expect(0)

    def expect(self, count: int) -> None:
        """Begin anew."""
        self._left, self._count = count, count
        self.began_s = self.ended_s = 0.0
        self.over = asyncio.Event()

    def passed(self, loop: asyncio.AbstractEventLoop) -> None:
        """One more, on the lane's thread."""
        if self._left == self._count:
            self.began_s = time.process_time()
        self._left -= 1
        if not self._left:
            self.ended_s = time.process_time()
            loop.call_soon_threadsafe(self.over.set)

    @property
    def each_us(self) -> float:
        """Processor time of one run."""
        return (self.ended_s - self.began_s) / (self._count - 1) * 1e6


progress = Progress()
control: list[asyncio.AbstractEventLoop] = []


@step
async def nothing(n: int) -> int:
    """Nothing at all."""
    return n


@workflow(name="noop")
async def noop(ctx: WorkflowContext) -> None:
    """No step."""
    progress.passed(control[0])


@workflow(name="five")
async def five(ctx: WorkflowContext) -> None:
    """Five steps, one after another."""
    for n in range(_STEPS):
        await ctx.step(nothing, n)
    progress.passed(control[0])


class _Blind(Unrecorded):
    """A black box into which nothing is written."""

    @classmethod
    def create(cls, *_args: object, **_facts: object) -> _Blind:
        return cls()

    def __getattr__(self, _name: str) -> Any:
        return lambda *_args, **_facts: None


class _Asleep:
    """A watchdog that does not watch."""

    def __init__(self, *_args: object, **_more: object) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def take_lag_ms(self) -> float:
        return 0.0

    def stuck(self) -> None: ...


class _Plain(asyncio.SelectorEventLoop):
    """asyncio's own loop, with what a lane asks of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.on_lane = OnLane()

    def urgent(self, order: Any) -> None:
        """Nobody is in the way here."""
        post(self, order)


def _plain_loop(_presence: Presence, _kind: object = None) -> Any:
    return _Plain()


def _turn_off() -> None:
    vars(workers).update(BlackBox=_Blind, Watchdog=_Asleep)
    vars(lane_thread).update(lane_loop=_plain_loop)


async def _measure(folder: Path, count: int) -> dict[str, float]:
    url, found = f"sqlite:///{folder / 'store.db'}", {}
    control.append(asyncio.get_running_loop())
    async with WorkflowClient(open_store(url)) as client:
        for name in ("noop", "five"):
            progress.expect(count)
            await fill(partial(_submit, client, name), count, _AT_ONCE)
            await _drained(url, folder)
            found[name] = progress.each_us
    return found


async def _submit(client: WorkflowClient, name: str, _key: str) -> None:
    await client.submit(name, {})


async def _drained(url: str, folder: Path) -> None:
    """One worker's life, until all runs have passed."""
    setup = WorkerSetup(
        programs=[program_of(noop), program_of(five)],
        store=open_store(url),
        options=WorkerOptions(),
        runtime_dir=folder,
    )
    worker = Worker(setup)
    life, over = asyncio.create_task(worker.run()), asyncio.create_task(progress.over.wait())
    await asyncio.wait([life, over], return_when=asyncio.FIRST_COMPLETED)
    worker.request_stop()
    await life  # it says why if it has ended too early
    await over


def main() -> None:
    """Measure what is named."""
    kind, count = sys.argv[1:]
    if kind == "off":
        _turn_off()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(_measure(Path(folder), int(count)))
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
