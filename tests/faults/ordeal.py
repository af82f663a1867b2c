"""What a worker has to come through, whatever befalls the server meanwhile, and the laws that must hold afterwards.

Runs stand at a gate in the middle of a step, others are on their way or in line. Then something happens to the server
or to the road. When it is over, everything has to come to its end without help: each run once, by whoever held it,
charged with nothing, and whoever was told `done` finds it done.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path
from typing import Any

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from tests.faults.check_history import check, history_of
from tests.faults.history import final_runs, load
from tests.faults.plan import Point
from tests.faults.world import BRISK, Process, Visit, World
from tests.store.samples import until

HELD, MOVING, LATER = 3, 6, 3
# a lock that a busy machine does not let lapse
OPTIONS: dict[str, Any] = BRISK | {"lock_ttl": 3.0, "orphan_scan_interval": 0.3}
EVERY_RENEWAL = Point(verb="renew", nth=0, phase="answered", deed="tell")
# the store's own patience, in the proportion in which these locks live shorter than a usual one
HASTY = {"connect_s": 1.0, "answer_s": 1.0, "ping_s": 1.0, "close_s": 1.0, "knock_s": 0.5, "again_most_s": 0.2}
BOUND_S = 30.0  # after the end of the event; only a broken worker takes so long


class Ordeal:
    """Workers in a world, with runs in their hands. `road` is where they find the server, if not as the test does."""

    def __init__(self, world: World, road: str = "", **order: Any) -> None:
        self.world = world
        self.workers: list[Process] = []
        self.runs: list[str] = []
        self._order = order | ({"store": road} if road else {})
        self._visits: list[Visit] = []
        self._histories: list[Path] = []

    async def begin(self, workers: int = 2) -> None:
        """Start workers, and see that they have their hands full."""
        world = self.world
        gate = await world.gate()
        for _ in range(workers):
            history = world.directory / f"history {secrets.token_hex(4)}"
            self._histories.append(history)
            order = {"options": OPTIONS} | self._order
            self.workers.append(await world.start(EVERY_RENEWAL, history=str(history), **order))
        for worker in self.workers:
            await worker.told("serving")
        self.runs = [await world.submit("gated", gate=str(gate.path)) for _ in range(HELD)]
        self._visits = [await gate.visit() for _ in self.runs]
        self.runs += [await world.submit("ten") for _ in range(MOVING)]

    async def renewals(self, count: int) -> None:
        """Wait until a worker has tried so often to renew; one whose hands are empty does not."""

        async def tried(worker: Process) -> None:
            before = sum(event["event"] == "crossed" for event in worker.events)
            await worker.crossed("renew", before + count)

        trying = [asyncio.ensure_future(tried(worker)) for worker in self.workers]
        done, others = await asyncio.wait(trying, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        done.pop().result()

    async def settled(self) -> None:
        """Wait until nothing is on its way but what stands at the gate."""
        await asyncio.gather(*[self.world.ended(run) for run in self.runs[HELD:]])

    async def dropped(self) -> None:
        """Wait until the runs at the gate have been given up."""
        await asyncio.gather(*[visit.given_up() for visit in self._visits])
        await until(self.reaches)

    async def reaches(self) -> bool:
        """Whether the test's own way to the store leads there."""
        try:
            await self.world.store.ping()
        except StoreUnavailable:
            return False
        return True

    async def _unended(self) -> list[str]:
        """What has not come to its end, and what the workers say."""
        runs = [await self.world.read(run) for run in self.runs]
        return [
            *(
                f"{run.workflow} {run.run_id} is {run.status}, fence {run.fence}, lock {run.lock_left_ms}"
                for run in runs
            ),
            *(self.world.log(worker)[-3_000:] for worker in self.workers),
        ]

    async def end(self) -> None:
        """Let everything come to its end, and fail if anything is wrong."""
        wrong = await self._wrong()
        assert not wrong, "\n".join(wrong)

    async def _wrong(self) -> list[str]:
        world, calm_s = self.world, time.monotonic()
        for visit in self._visits:
            visit.let_in("kept")
        await until(self.reaches)
        self.runs += [await world.submit("ten") for _ in range(LATER)]
        try:
            ended = await asyncio.gather(*[world.ended(run, BOUND_S) for run in self.runs])
        except TimeoutError:
            return await self._unended()
        codes = [await worker.drain() for worker in self.workers]
        final = [run for run in await final_runs(world.store) if run.run_id in self.runs]
        wrong = check(history_of(load(self._histories), final, calm_s=calm_s, bound_s=BOUND_S))
        wrong += [f"run {run.run_id} is {run.status}" for run in ended if run.status is not RunStatus.completed]
        wrong += [f"run {run.run_id} was claimed {run.fence} times" for run in ended[:HELD] if run.fence != 1]
        wrong += [
            f"run {run.run_id} was claimed {run.fence} times, and its {what} was done {times} times"
            for run in ended
            for what, times in world.marks(run.run_id).items()
            if times > run.fence
        ]
        wrong += [f"{each.name} ended with {code}" for each, code in zip(self.workers, codes, strict=True) if code]
        return wrong + list(world.problems())
