"""What it costs to write down whose code runs: steps of the loop of a real lane, with and without its black box.

Command line: which loop (`asyncio`, `unrecorded`, `recorded`), how many steps. Prints the figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pyrula_runtime.blackbox import BlackBox
from pyrula_runtime.engine.current import Current, current
from pyrula_runtime.engine.lane import Lane
from pyrula_runtime.engine.lane_setup import LaneSetup
from pyrula_runtime.engine.presence import Presence, Unrecorded, mono_ms
from pyrula_runtime.engine.slots import Slots
from pyrula_runtime.engine.watchdog import Watchdog
from pyrula_runtime.options import WorkerOptions

_WHOSE = Current(run_id="r" * 32, workflow="workflow", op_id="step#1", step="step")


async def _steps(count: int) -> float:
    current.set(_WHOSE)
    return await asyncio.create_task(_timed(count))


async def _timed(count: int) -> float:
    before_ns = time.perf_counter_ns()
    for _ in range(count):
        await asyncio.sleep(0)
    return (time.perf_counter_ns() - before_ns) / count


def _on_lane(presence: Presence, count: int) -> float:
    lane = Lane(
        LaneSetup(
            store=cast(Any, None),  # no turn ever comes to it
            programs={},
            incarnation="i",
            slots=Slots(1),
            lock_ttl_ms=30_000,
            mono_ms=mono_ms,
            on_free_slot=lambda: None,
            on_outage=lambda error: None,
            on_failed=lambda error: None,
            presence=presence,
        )
    )
    watchdog = Watchdog(lane, WorkerOptions().block_warn)
    lane.start()
    watchdog.start()
    try:
        return asyncio.run_coroutine_threadsafe(_steps(count), lane.loop).result()
    finally:
        watchdog.stop()
        lane.stop()
        lane.thread.join()


def _each_ns(call: Callable[[], object], count: int) -> float:
    before_ns = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - before_ns) / count


def _recorded(count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        box = BlackBox.create(Path(folder), incarnation="0" * 16, worker_id="w", store_identity="s", now_ms=mono_ms())
        step_ns = _on_lane(box, count)
        place, at_ns = _WHOSE.place, time.monotonic_ns()

        def span() -> None:
            box.enter_lane(place, at_ns)
            box.leave_lane()

        def thread() -> None:
            box.leave_thread(box.enter_thread(place, at_ns))

        found = {"step": step_ns, "span": _each_ns(span, count), "thread": _each_ns(thread, count)}
        found["run"] = _each_ns(lambda: box.drop(box.hold(_WHOSE.run_id, 1)), count)
        box.close()
        return found


def main() -> None:
    """Measure the loop that is named."""
    loop, count = sys.argv[1], int(sys.argv[2])
    if loop == "recorded":
        found = _recorded(count)
    elif loop == "unrecorded":
        found = {"step": _on_lane(Unrecorded(), count)}
    else:
        found = {"step": asyncio.run(_steps(count))}
    sys.stdout.write(f"\n{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
