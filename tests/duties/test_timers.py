"""The timer round: wakes what is due and comes again exactly when the next is."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import Moves, RunStatus
from pyrula_runtime.duties.timers import _PAGE, Timers
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.partly import PartlyUnavailable
from pyrula_runtime.stores.protocol import Store, Woken
from tests.store.samples import new_run, status_of, suspended


async def test_it_wakes_what_is_due_in_as_many_pages_as_it_takes(store: Store, clock: ManualClock) -> None:
    runs = [await suspended(store, due_ms=clock.wall_ms() + after) for after in (5, 5, 9)]
    clock.move(5)
    timers = Timers(store, lambda: None, page=1)
    await timers.act()
    statuses = [await status_of(store, each.token.run_id) for each in runs]
    assert statuses == [RunStatus.queued, RunStatus.queued, RunStatus.waiting]
    timers.stop()


async def test_a_backlog_longer_than_any_page_is_woken_in_one_go(store: Store, clock: ManualClock) -> None:
    late = [replace(new_run(), start_at_ms=clock.wall_ms() + 5, status=RunStatus.waiting) for _ in range(_PAGE + 101)]
    await asyncio.gather(*map(store.submit, late))
    clock.move(5)
    timers = Timers(store, lambda: None)
    await timers.act()
    assert await store.counts() == {("order", RunStatus.queued): len(late)}
    timers.stop()


async def test_it_comes_again_when_the_next_is_due(store: Store, clock: ManualClock) -> None:
    nudge = asyncio.Event()
    timers = Timers(store, nudge.set)
    await timers.act()
    assert not nudge.is_set()
    run = await suspended(store, due_ms=clock.wall_ms() + 30)
    await suspended(store, due_ms=clock.wall_ms() + 10**9)
    await timers.act()
    await asyncio.wait_for(nudge.wait(), 20)
    clock.move(30)
    await timers.act()
    assert await status_of(store, run.token.run_id) is RunStatus.queued
    timers.stop()


async def test_what_is_overdue_on_a_node_that_is_away_is_not_asked_for_without_a_rest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken = [Woken(woken=2, next_due_ms=5, now_ms=9), Woken(woken=0, next_due_ms=5, now_ms=9)]

    async def partly(moves: Moves, limit: int) -> Woken:
        raise PartlyUnavailable("a node is away", woken.pop(0))

    nudges: list[None] = []
    timers = Timers(store, lambda: nudges.append(None))
    with monkeypatch.context() as away:
        away.setattr(store, "wake_due", partly)
        with pytest.raises(StoreUnavailable):
            await timers.act()
    assert woken == []
    await asyncio.sleep(0.005)  # an alarm that was set for what is overdue would have rung before, on the same loop
    assert nudges == []
