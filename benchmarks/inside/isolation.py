"""Turns on the shared lane and turns with lanes of their own: what one costs, and what one that spins does to others.

Command line: where turns run (`lane`, `turn`), how many turns, for how many seconds one spins. The store answers at
once, from memory, so that nothing else is measured. Prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

from benchmarks.figures import quantile
from pyrula_runtime.blackbox import BlackBox
from pyrula_runtime.core.locks import Token
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.presence import mono_ms
from pyrula_runtime.engine.program import Operations, Program, StepCall
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.options import Isolation
from pyrula_runtime.stores.protocol import Append, Claim, Commit, Committed

_INNOCENT = 50
_NAP_S = 0.01
_SWITCH_S = 0.001  # as workers have it


class _Memory:
    """A store that takes everything."""

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        answer: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        answer.set_result(Committed(append=Append.done, length=commit.expected_len + len(commit.entries)))
        return answer


class _Scene:
    """What the steps do, and what they have seen."""

    def __init__(self, spin_s: float) -> None:
        self._naps: list[tuple[float, float]] = []  # from, to
        self._spun = (0.0, 0.0)  # from, to
        self._spin_s = spin_s
        self._is_over = False

    def late_ms(self) -> list[float]:
        """How late each nap ended that somebody could disturb by spinning."""
        since, until = self._spun
        return [(to - at - _NAP_S) * 1000 for at, to in self._naps if to > since and at < until]

    async def nothing(self) -> None:
        pass

    async def nap(self) -> None:
        """Sleep a little again and again."""
        while not self._is_over:
            before = time.perf_counter()
            await asyncio.sleep(_NAP_S)
            self._naps.append((before, time.perf_counter()))

    async def spin(self) -> None:
        """Keep the loop with Python code."""
        await asyncio.sleep(0.5)  # until all others nap
        began = time.perf_counter()
        while time.perf_counter() < began + self._spin_s:
            pass
        self._spun = (began, time.perf_counter())
        await asyncio.sleep(2 * _NAP_S)
        self._is_over = True


def _program(step: Any) -> Program:
    def same(value: Any) -> Any:
        return value

    call = StepCall(name=step.__name__, call=step, is_async=True, to_json=same, from_json=same)

    def start(operations: Operations, _input: Any) -> Coroutine[Any, Any, Any]:
        async def body() -> Any:
            return await operations.ask(call)

        return body()

    return Program(name=step.__name__, version=None, start=start, to_json=same)


def _claim(number: int, workflow: str) -> Claim:
    return Claim(
        token=Token(run_id=f"run{number}", fence=1, nonce="n"),
        workflow=workflow,
        version=None,
        input=b"null",
        journal=(),
        journal_len=0,
        journal_bytes=0,
        created_ms=0,
        started_ms=0,
        now_ms=0,
        cancel_requested=False,
    )


def main() -> None:
    """Measure turns of the kind that is named."""
    isolation, count, spin_s = cast(Isolation, sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    sys.setswitchinterval(_SWITCH_S)
    scene = _Scene(spin_s)
    freed: queue.SimpleQueue[None] = queue.SimpleQueue()
    programs = [_program(step) for step in (scene.nothing, scene.nap, scene.spin)]
    with tempfile.TemporaryDirectory() as folder:
        box = BlackBox.create(Path(folder), incarnation="0" * 16, worker_id="w", store_identity="s", now_ms=mono_ms())
        lanes = Lanes(
            LaneSetup(
                store=cast(Any, _Memory()),
                programs={program.name: program for program in programs},
                incarnation="i",
                slots=Slots(_INNOCENT + 1),
                lock_ttl_ms=30_000,
                mono_ms=mono_ms,
                on_free_slot=lambda: freed.put(None),
                on_outage=lambda error: None,
                on_failed=lambda error: None,
                presence=box,
            ),
            isolation,
        )
        lanes.start()
        before = time.perf_counter()
        for number in range(count):
            lanes.take([_claim(number, "nothing")])
            freed.get()
        turn_us = (time.perf_counter() - before) / count * 1e6
        lanes.take([_claim(count + number, "nap") for number in range(_INNOCENT)])
        lanes.take([_claim(count + _INNOCENT, "spin")])
        for _ in range(_INNOCENT + 1):
            freed.get()
        lanes.stop()
        box.close()
    late = {f"p{share}": quantile(scene.late_ms(), share / 100) for share in (50, 99)}
    sys.stdout.write(f"\n{json.dumps({'turn': turn_us, 'max': max(scene.late_ms()), **late})}\n")


if __name__ == "__main__":
    main()
