"""What looks like a blocked lane and is none raises no alarm: no incident, no surge, no death, no charge, no mark.

Each scenario has a supervisor with two workers and times as they come, but for shorter lives of locks, so that what is
held against nobody after two seconds or five is held against nobody in earnest. Small runs go on meanwhile. Each ends
with a run that does block: whoever raises no alarm then is not watching.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.blackbox import read_box
from pyrula_runtime.core.status import RunStatus
from tests.faults.supervised import Given, Row, Supervised
from tests.faults.world import World

FLAGS = (
    *("--procs", "2", "--lock-ttl", "6", "--max-concurrent-runs", "32", "--orphan-scan-interval", "0.5"),
    *("--shutdown-grace", "10", "--cancel-timeout", "0.5"),
)
# longer than `block_warn` and `replace_after`
PAUSE_S = 6.0
COLLECTION_S = 2.5
ALARMS = {"block", "surge", "evacuation", "death", "memory", "store_frozen", "charge", "mark", "quarantine"}
_APART_S = 0.1
_CPU_GROUPS = Path("/sys/fs/cgroup/cpu")

Scenario = Callable[["Watched", float], Awaitable[None]]


class Watched:
    """A supervisor whose every word is listened to."""

    def __init__(self, world: World, supervised: Supervised) -> None:
        self.world = world
        self.supervised = supervised
        self.alarms: dict[str, None] = {}  # what was said, in its order
        self.runs: list[str] = []

    async def listen(self) -> None:
        """Collect alarms, until cancelled; and keep small runs coming."""
        while True:
            await asyncio.to_thread(self.hear)  # a paused supervisor answers nobody
            self.runs.append(await self.world.submit("ten"))
            await asyncio.sleep(_APART_S)

    def hear(self) -> None:
        """What the status document says now."""
        document = self.supervised.document()
        for row in document.get("children", []):
            if row["blocked"]:
                self.alarms[f"{row['role']} {row['slot']} is blocked: {row['blocked']}"[:2_000]] = None
        for incident in document.get("incidents", []):
            if incident["kind"] in ALARMS:
                self.alarms[f"{incident['kind']}: {incident['text']}"] = None

    async def run(self, workflow: str, limit_s: float = 120, **given: Any) -> None:
        """A run, waited for."""
        self.runs.append(await self.world.submit(workflow, **given))
        await self.world.ended(self.runs[-1], limit_s)

    def workers(self) -> list[Row]:
        return self.supervised.rows("worker")

    def child_to_stop(self) -> Row:
        """A worker that is stopped now, and did not just hold the store's write lock: that would be killed for it."""
        while True:
            row = self.workers()[0]
            self.supervised.halt(row["pid"])  # or it might take the lock after the look
            view = read_box(self.supervised.box_of(row))
            if view is not None and view.store_lock_since_ms == 0:
                return row
            self.supervised.send(row["pid"], signal.SIGCONT)


# scenarios


async def contention(watched: Watched, seconds: float) -> None:
    """Sixteen threads of one worker want the GIL all the time, and so does its lane."""
    ends = time.monotonic() + seconds
    while (left_s := ends - time.monotonic()) > 0:
        await watched.run("spinning", threads=16, seconds=min(left_s, 20))


async def collections(watched: Watched, seconds: float) -> None:
    """Each longer than a block is borne without a word."""
    for _ in range(max(1, round(seconds / (2 * COLLECTION_S)))):
        await watched.run("collecting", seconds=COLLECTION_S, times=1)


async def starvation(watched: Watched, seconds: float) -> None:
    """The workers get next to no processor: a quota of the kernel, or neighbours that are less nice."""
    pids = [row["pid"] for row in watched.workers()]
    hogs = [await watched.world.start(role="hog") for _ in range(4)]
    with quota(pids) if _CPU_GROUPS.exists() and os.access(_CPU_GROUPS, os.W_OK) else niceness(pids):
        limit_s = seconds + 120
        times = round(max(50, 2 * seconds))  # much more than a hundredth of a processor does in that time
        computing = [asyncio.create_task(watched.run("computing", limit_s, times=times)) for _ in range(2)]
        await asyncio.sleep(seconds)
        assert not any(task.done() for task in computing), "they had a processor"
    await asyncio.gather(*(hog.kill() for hog in hogs))
    await asyncio.gather(*computing)


async def child_paused(watched: Watched, seconds: float) -> None:
    for _ in range(max(1, round(seconds / PAUSE_S))):
        row = watched.child_to_stop()
        await asyncio.sleep(PAUSE_S)
        watched.supervised.send(row["pid"], signal.SIGCONT)
        await asyncio.sleep(1)


async def parent_paused(watched: Watched, seconds: float) -> None:
    for _ in range(max(1, round(seconds / PAUSE_S))):
        os.kill(watched.supervised.pid, signal.SIGSTOP)
        await asyncio.sleep(PAUSE_S)
        os.kill(watched.supervised.pid, signal.SIGCONT)
        await asyncio.sleep(1)


async def all_paused_and_the_parent_first(watched: Watched, seconds: float) -> None:
    for _ in range(max(1, round(seconds / PAUSE_S))):
        row = watched.child_to_stop()
        os.kill(watched.supervised.pid, signal.SIGSTOP)
        await asyncio.sleep(PAUSE_S)
        os.kill(watched.supervised.pid, signal.SIGCONT)
        await asyncio.sleep(1.5)
        watched.supervised.send(row["pid"], signal.SIGCONT)
        await asyncio.sleep(1)


async def a_large_heap(watched: Watched, seconds: float) -> None:
    """A collection that takes its time because there is much to look through."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        await watched.run("heaping", 600, objects=20_000_000)


SCENARIOS: tuple[Scenario, ...] = (
    contention,
    collections,
    starvation,
    child_paused,
    parent_paused,
    all_paused_and_the_parent_first,
)


@contextlib.contextmanager
def quota(pids: list[int]) -> Iterator[None]:
    """A hundredth of a processor for all of them together, in slices that are a second apart."""
    group = _CPU_GROUPS / f"false-alarm-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text("1000000")
        (group / "cpu.cfs_quota_us").write_text("10000")
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (_CPU_GROUPS / "cgroup.procs").write_text(str(pid))
        with contextlib.suppress(OSError):  # one that has just died is still in it
            group.rmdir()


@contextlib.contextmanager
def niceness(pids: list[int]) -> Iterator[None]:
    """Everybody else first."""
    _nice(pids, 19)
    yield
    _nice(pids, 0)


def _nice(pids: list[int], niceness: int) -> None:
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(task.name), niceness)


# the watch


@contextlib.asynccontextmanager
async def watched_in(world: World) -> AsyncIterator[Watched]:
    given = Given(store_url=world.url, workflows=("tests.faults.workflows", "tests.faults.alarming"), flags=FLAGS)
    supervised = Supervised(world.directory, given)
    await supervised.start()
    try:
        await supervised.ready(2)
        yield Watched(world, supervised)
    finally:
        await supervised.kill()


async def unalarmed(watched: Watched, scenario: Scenario, seconds: float) -> None:
    """Let it happen; nobody may say or hold anything against anybody."""
    listening = asyncio.create_task(watched.listen())
    await scenario(watched, seconds)
    listening.cancel()
    await asyncio.wait([listening])
    for run in watched.runs:
        record = await watched.world.ended(run)
        told = await watched.world.client.describe(run)
        against = (told["charges"], told["marks"], told["suspect"])
        assert (record.status, against) == (RunStatus.completed, ([], [], False)), f"{record.workflow}: {told}"
    watched.hear()
    assert not watched.alarms, "\n".join([*watched.alarms, watched.supervised.tail()])
    watched.runs.clear()


async def alarmed(watched: Watched) -> None:
    """A run that blocks is told of."""
    await watched.world.submit("blocking", seconds=4.0)
    async with asyncio.timeout(30):
        while not any(alarm.startswith("block: ") for alarm in watched.alarms):
            watched.hear()
            await asyncio.sleep(_APART_S)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_no_alarm(world: World, scenario: Scenario) -> None:
    async with watched_in(world) as watched:
        await unalarmed(watched, scenario, 10)
        await alarmed(watched)
        assert await watched.supervised.stop() == 0


@pytest.mark.nightly
async def test_no_alarm_with_a_large_heap(world: World) -> None:
    async with watched_in(world) as watched:
        await unalarmed(watched, a_large_heap, 1)
        await alarmed(watched)


@pytest.mark.nightly
async def test_no_alarm_for_half_an_hour(world: World) -> None:
    async with watched_in(world) as watched:
        for scenario in (*SCENARIOS, a_large_heap):
            await unalarmed(watched, scenario, 1800 / (len(SCENARIOS) + 1))
        await alarmed(watched)
