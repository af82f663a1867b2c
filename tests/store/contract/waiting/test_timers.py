"""Due times: never early, in order, in batches, and a start that was delayed is not brought forward by anything."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pyrula_runtime.core.status import DUE, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Store, Wake, Woken
from tests.store.listening import woken_by
from tests.store.samples import appending, new_run, request, send, status_of, suspended, waiting
from tests.store.sites import Site


async def test_a_timer_is_never_early(store: Store, clock: ManualClock) -> None:
    due_ms = clock.wall_ms() + 1_000
    claim = await suspended(store, due_ms=due_ms)
    clock.move(999)
    assert await store.wake_due(DUE, 100) == Woken(woken=0, next_due_ms=due_ms, now_ms=due_ms - 1)
    assert await status_of(store, claim.token.run_id) == RunStatus.waiting
    clock.move(1)
    assert await store.wake_due(DUE, 100) == Woken(woken=1, next_due_ms=None, now_ms=due_ms)
    assert await status_of(store, claim.token.run_id) == RunStatus.queued


async def test_a_clock_that_is_set_back_makes_timers_late_not_early(store: Store, clock: ManualClock) -> None:
    await suspended(store, due_ms=clock.wall_ms() + 1_000)
    clock.set_wall(-500)
    clock.move(1_000)
    assert (await store.wake_due(DUE, 100)).woken == 0


async def test_a_run_is_woken_once(store: Store, clock: ManualClock) -> None:
    claim = await suspended(store, due_ms=clock.wall_ms() + 3)
    await suspended(store, due_ms=clock.wall_ms() + 5)
    clock.move(5)
    await send(store, claim.token.run_id, "m")
    assert (await store.wake_due(DUE, 100)).woken == 1
    assert (await store.wake_due(DUE, 100)).woken == 0
    assert len(await store.claim(request())) == 2


async def test_those_that_are_due_first_are_woken_first(store: Store, clock: ManualClock) -> None:
    now = clock.wall_ms()
    claims = [await suspended(store, due_ms=now + after) for after in (30, 10, 20, 41)]
    clock.move(40)
    assert await store.wake_due(DUE, 2) == Woken(woken=2, next_due_ms=now + 30, now_ms=now + 40)
    assert [await status_of(store, claim.token.run_id) for claim in claims] == [
        "waiting",
        "queued",
        "queued",
        "waiting",
    ]
    # what is due takes nothing along that is not
    assert await store.wake_due(DUE, 9) == Woken(woken=1, next_due_ms=now + 41, now_ms=now + 40)


@pytest.mark.parametrize("count", [1_200, pytest.param(10_000, marks=pytest.mark.nightly)])
async def test_many_that_are_due_at_once_are_woken_in_batches(store: Store, clock: ManualClock, count: int) -> None:
    start_ms = clock.wall_ms() + 1_000
    late = replace(new_run(), status=RunStatus.waiting, start_at_ms=start_ms)
    runs = [replace(late, run_id=f"run-{number:05}") for number in range(count)]
    await asyncio.gather(*[store.submit(run) for run in runs])
    clock.move(1_000)
    woken = []
    while batch := (await store.wake_due(DUE, count)).woken:
        woken.append(batch)
    assert (sum(woken), max(woken) <= 500) == (count, True)
    assert (await store.counts())[("order", RunStatus.queued)] == count


async def test_a_delayed_start_is_waited_for(store: Store, clock: ManualClock) -> None:
    start_ms = clock.wall_ms() + 1_000
    run = replace(new_run(), status=RunStatus.waiting, start_at_ms=start_ms)
    await store.submit(run)
    assert await store.claim(request()) == ()
    await send(store, run.run_id, "early")
    assert await store.claim(request()) == ()
    clock.move(1_000)
    assert (await store.wake_due(DUE, 10)).woken == 1
    (claim,) = await store.claim(request())
    assert [each.message_id for each in claim.inbox] == ["early"]
    record = await store.read(run.run_id)
    assert record is not None
    assert (record.start_at_ms, record.due_ms) == (start_ms, None)


async def test_a_paused_run_is_not_woken_and_can_be_sent_back_to_its_start(store: Store, clock: ManualClock) -> None:
    start_ms = clock.wall_ms() + 1_000
    run = replace(new_run(), status=RunStatus.waiting, start_at_ms=start_ms)
    await store.submit(run)
    assert await store.amend(Amendment(run_id=run.run_id, rev=1, status=RunStatus.paused, ready=False))
    clock.move(900)
    assert (await store.wake_due(DUE, 10)).next_due_ms is None
    resume = Amendment(run_id=run.run_id, rev=2, status=RunStatus.waiting, ready=False, due_ms=start_ms)
    assert await store.amend(resume)
    assert (await store.wake_due(DUE, 10)).next_due_ms == start_ms
    clock.move(100)
    assert (await store.wake_due(DUE, 10)).woken == 1


async def test_an_operator_can_mark_a_waiting_run_without_waking_it(store: Store, clock: ManualClock) -> None:
    claim = await suspended(store, due_ms=clock.wall_ms() + 1_000)
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=3, cancel_requested=True))
    clock.move(1_000)
    assert (await store.wake_due(DUE, 10)).woken == 1


async def test_an_earlier_time_rings_for_the_timer_round(site: Site, store: Store, clock: ManualClock) -> None:
    async def suspend() -> None:
        await suspended(store, due_ms=clock.wall_ms() + 1_000)

    late = replace(new_run(), status=RunStatus.waiting, start_at_ms=clock.wall_ms() + 500)
    await woken_by(site, suspend, Wake.timer)
    await woken_by(site, lambda: store.submit(late), Wake.timer)


async def test_what_is_woken_rings_for_workers(site: Site, store: Store, clock: ManualClock) -> None:
    await suspended(store, due_ms=clock.wall_ms() + 5)
    clock.move(5)
    await woken_by(site, lambda: store.wake_due(DUE, 10), Wake.ready)


async def test_a_run_can_wait_again(store: Store, clock: ManualClock) -> None:
    await suspended(store, due_ms=clock.wall_ms() + 5)
    clock.move(5)
    await store.wake_due(DUE, 10)
    (again,) = await store.claim(request())
    await store.commit(appending(again.token, 0, b"slept", ending=waiting(clock.wall_ms() + 5)))
    assert (await store.wake_due(DUE, 10)).next_due_ms == clock.wall_ms() + 5


async def test_priority_goes_before_age_and_age_decides_among_equals(store: Store) -> None:
    runs = [replace(new_run(), priority=priority) for priority in (0, 5, -1, 5, 0)]
    for run in runs:
        await store.submit(run)
    claims = await store.claim(request(limit=4))
    assert [claim.token.run_id for claim in claims] == [runs[at].run_id for at in (1, 3, 0, 4)]


async def test_priority_counts_over_all_lines_that_are_served(store: Store) -> None:
    low, high = new_run("order"), replace(new_run("other", "1"), priority=1)
    await store.submit(low)
    await store.submit(high)
    (claim,) = await store.claim(request(("order", "1"), ("other", "1"), limit=1))
    assert claim.token.run_id == high.run_id
