"""Who may write to a run: one holder at a time, whoever sleeps, lingers, dies or recovers meanwhile."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

from pyrula.workflows import RunStatus
from pyrula_runtime.core.blame import Budget
from pyrula_runtime.core.locks import Token
from pyrula_runtime.duties.burial import Burial, free_all
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.opening import open_store
from pyrula_runtime.stores.protocol import CLEAN
from tests.faults.check_history import check, history_of
from tests.faults.history import final_runs, load
from tests.faults.keeping import on_a_file
from tests.faults.plan import Point
from tests.faults.world import BRISK, World

EAGER: dict[str, Any] = BRISK | {"orphan_scan_interval": 0.1}
LOCK_TTL_S = 2.0  # three times a renewal's period, so that a busy machine does not let it lapse
EVERY_SCAN = Point(verb="reclaim_lapsed", nth=0, phase="answered", deed="tell")


async def test_a_worker_that_slept_past_its_lock_writes_nothing_more(world: World) -> None:
    histories = [world.directory / "history1", world.directory / "history2"]
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    sleeper = await world.start(options=EAGER, history=str(histories[0]))
    first = await gate.visit()
    other = await world.start(options=EAGER, history=str(histories[1]))
    await other.told("serving")
    sleeper.send(signal.SIGSTOP)
    second = await gate.visit()
    assert second.key == first.key
    first.let_in("from the first")
    sleeper.send(signal.SIGCONT)
    await first.given_up()
    second.let_in("from the second")
    record = await world.ended(run)
    assert (record.status, record.result, record.fence) == (RunStatus.completed, b'"from the second"', 2)
    assert await sleeper.drain() == 0
    assert await other.drain() == 0
    assert [entry["o"] for entry in await world.journal(run)] == ["leave_mark#1", "visit#1", "leave_mark#2"]
    assert set(world.marks(run).values()) == {1}
    assert check(history_of(load(histories), await final_runs(world.store))) == []
    assert world.problems() == []


async def test_a_worker_that_slept_while_the_run_ended_elsewhere_changes_nothing(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("plain gated", gate=str(gate.path))
    sleeper = await world.start(options=EAGER)
    first = await gate.visit()
    other = await world.start(options=EAGER)
    await other.told("serving")
    sleeper.send(signal.SIGSTOP)
    (await gate.visit()).let_in("from the second")
    await world.ended(run)
    before = await world.read(run)
    first.let_in("from the first")
    sleeper.send(signal.SIGCONT)
    assert await sleeper.drain() == 0
    assert await world.read(run) == before
    assert set(world.marks(run).values()) == {1}


async def test_a_step_longer_than_a_lock_is_not_taken_away(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    options = EAGER | {"lock_ttl": LOCK_TTL_S}
    await world.start(options=options)
    visit = await gate.visit()
    other = await world.start(EVERY_SCAN, options=options)
    began = time.monotonic()
    scans = 0
    while time.monotonic() - began < 1.5 * LOCK_TTL_S:
        scans += 1
        await other.crossed("reclaim_lapsed", scans)
    visit.let_in()
    record = await world.ended(run)
    assert (record.status, record.fence) == (RunStatus.completed, 1)
    assert gate.is_quiet
    assert scans > 10


async def hold_and_die(world: World, runs: int) -> list[str]:
    """Runs that a dead worker holds."""
    gate = await world.gate()
    held = [await world.submit("gated", gate=str(gate.path)) for _ in range(runs)]
    worker = await world.start()
    for _ in held:
        await gate.visit()
    await worker.kill()
    return held


async def test_of_two_burials_of_one_dead_each_run_is_freed_by_one(world: World) -> None:
    held = await hold_and_die(world, 5)
    second = open_store(world.url)
    await second.open()
    try:
        owner = (await world.read(held[0])).owner
        assert owner is not None
        freed = await asyncio.gather(free_all(world.store, owner), free_all(second, owner))
        assert sorted(freed[0] + freed[1]) == sorted(held)
        assert await free_all(second, owner) == ()
    finally:
        await second.close()


async def test_the_box_of_the_dead_goes_after_a_second_look(world: World) -> None:
    held = await hold_and_die(world, 1)
    clock = ManualClock()
    burial = Burial(world.store, world.directory / "run", clock, Budget())
    await burial.act()
    assert (await world.read(held[0])).status is RunStatus.queued
    assert len(world.boxes()) == 1
    clock.move(1_000)
    await burial.act()
    assert world.boxes() == []


async def test_two_workers_that_start_after_a_death_share_its_runs(world: World) -> None:
    histories = [world.directory / f"history{number}" for number in range(3)]
    runs = [await world.submit("ten") for _ in range(20)]
    dying = Point(verb="commit", nth=50, phase="sent", deed="kill")
    assert await (await world.start(dying, history=str(histories[0]))).ended() == -signal.SIGKILL
    for history in histories[1:]:
        await world.start(history=str(history))
    ends = await asyncio.gather(*map(world.ended, runs))
    assert {end.status for end in ends} == {RunStatus.completed}
    assert check(history_of(load(histories), await final_runs(world.store))) == []
    assert all(max(world.marks(run).values()) <= 2 for run in runs)


@on_a_file
async def test_a_death_in_the_middle_of_a_write_stops_nobody(world: World) -> None:
    run = await world.submit("ten")
    holder = await world.start(role="hold")
    await holder.told("holding")
    waiting = asyncio.ensure_future(world.submit("ten"))
    worker = await world.start()
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done
    await holder.kill()
    began = time.monotonic()
    second = await waiting
    assert time.monotonic() - began < 1
    for each in (run, second):
        assert (await world.ended(each)).status is RunStatus.completed
    assert await worker.drain() == 0
    assert world.problems() == []


async def test_a_step_that_kills_its_process_is_done_again_and_its_neighbours_finish(world: World) -> None:
    gate = await world.gate()
    neighbours = [await world.submit("gated", gate=str(gate.path)) for _ in range(3)]
    first = await world.start()
    for _ in neighbours:
        await gate.visit()
    deadly = await world.submit("deadly")
    assert await first.ended() == -signal.SIGKILL
    await world.start()
    for _ in neighbours:
        (await gate.visit()).let_in()
    for run in (*neighbours, deadly):
        record = await world.ended(run)
        assert (record.status, record.dossier) == (RunStatus.completed, CLEAN)
        assert set(world.marks(run).values()) == {1}


async def test_a_run_that_an_operator_takes_away_ends_its_turn(world: World) -> None:
    gate = await world.gate()
    run = await world.submit("gated", gate=str(gate.path))
    worker = await world.start()
    visit = await gate.visit()
    record = await world.read(run)
    assert record.owner is not None
    (holding,) = await world.store.holdings(record.owner)
    assert isinstance(holding.token, Token)
    assert await free_all(world.store, record.owner) == (run,)
    again = await gate.visit()  # the same worker takes it again, under a new fence
    visit.let_in("old")
    again.let_in("new")
    ended = await world.ended(run)
    assert (ended.result, ended.fence) == (b'"new"', 2)
    assert await worker.drain() == 0
