"""An isolated turn that hangs is charged and given up; one that waits, or was itself kept from running, is not."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from pyrula_runtime.core.blame import Budget, Cause
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import load_error, load_record
from pyrula_runtime.engine.conviction import Court
from pyrula_runtime.engine.hung import Hung
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Release
from tests.engine.isolated import flow
from tests.engine.lanes import LIMIT_S, LaneAtWork, lane_at_work, step

PERIOD_S, TURN_LIMIT_S = 10.0, 90.0


class Watch:
    """The round and its clock."""

    def __init__(self, at_work: LaneAtWork, *, forgiven: int = 3) -> None:
        self.clock = ManualClock()
        court = Court(
            store=at_work.store,
            incarnation="test",
            worker_id="w",
            budget=Budget(max_retries=forgiven, window_ms=3_600_000),
            is_alone=lambda: False,
        )
        self._hung = Hung(at_work.lanes, court, lambda workflow: TURN_LIMIT_S, PERIOD_S, self.clock)

    async def rounds(self, count: int, late_s: float = 0.0) -> None:
        """So many, each after its period or so much later."""
        for _ in range(count):
            self.clock.move(round((PERIOD_S + late_s) * 1000))
            await self._hung.act()


class Blocking:
    """A step that blocks its loop until it is let go."""

    def __init__(self) -> None:
        self.began, self.open = threading.Event(), threading.Event()

        async def hang() -> None:
            self.began.set()
            self.open.wait(LIMIT_S)  # the guilty line

        self.program = flow(step(hang))

    async def blocks(self, at_work: LaneAtWork) -> str:
        """The run, when it does."""
        run_id = await at_work.submit("flow")
        await at_work.claim()
        assert await asyncio.to_thread(self.began.wait, LIMIT_S)
        return run_id

    async def ends(self, at_work: LaneAtWork) -> None:
        self.open.set()
        for turn in at_work.lanes.isolated():
            await asyncio.to_thread(turn.lane.thread.join, LIMIT_S)


async def test_a_turn_that_hangs_is_charged_and_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocking = Blocking()
    async with lane_at_work(tmp_path, [blocking.program]) as at_work:
        run_id = await blocking.blocks(at_work)
        watch = Watch(at_work)
        await watch.rounds(9)  # the first asks, eight find no answer
        assert [token.run_id for token in at_work.lanes.held()] == [run_id]
        await watch.rounds(1)
        assert at_work.lanes.held() == []
        assert at_work.setup.slots.in_use == 0
        record = await at_work.store.read(run_id)
        assert record is not None
        assert record.status is RunStatus.queued
        assert record.dossier.is_suspect
        (charge,) = load_record(record.dossier.record).charges
        assert charge.evidence.cause is Cause.loop_blocked
        assert (charge.evidence.step, charge.evidence.for_ms) == ("hang", 90_000)
        assert "the guilty line" in charge.evidence.line
        await blocking.ends(at_work)
        assert at_work.setup.slots.in_use == 0
    assert "isolated turn given up: its code has kept its event loop for 90.0 s" in caplog.text


async def test_past_its_budget_it_is_quarantined(tmp_path: Path) -> None:
    blocking = Blocking()
    async with lane_at_work(tmp_path, [blocking.program]) as at_work:
        run_id = await blocking.blocks(at_work)
        await Watch(at_work, forgiven=0).rounds(10)
        record = await at_work.store.read(run_id)
        assert record is not None
        assert record.status is RunStatus.quarantined
        assert load_error(record.error or b"").type == "EventLoopBlocked"
        await blocking.ends(at_work)


async def test_a_loop_that_turns_may_wait_for_ever(tmp_path: Path) -> None:
    began = threading.Event()
    over: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def wait() -> int:
        over.append((asyncio.get_running_loop(), asyncio.Event()))
        began.set()
        await over[0][1].wait()
        return 1

    async with lane_at_work(tmp_path, [flow(step(wait))]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        assert await asyncio.to_thread(began.wait, LIMIT_S)
        watch = Watch(at_work)
        (turn,) = at_work.lanes.isolated()
        for _ in range(20):
            await watch.rounds(1)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), turn.lane.loop))
        over[0][0].call_soon_threadsafe(over[0][1].set)
        assert (await at_work.until_ended(run_id)).result == b"1"


async def test_time_in_which_the_worker_stood_still_does_not_count(tmp_path: Path) -> None:
    blocking = Blocking()
    async with lane_at_work(tmp_path, [blocking.program]) as at_work:
        run_id = await blocking.blocks(at_work)
        watch = Watch(at_work)
        await watch.rounds(2, late_s=3600)
        await watch.rounds(6)
        assert [token.run_id for token in at_work.lanes.held()] == [run_id]
        await blocking.ends(at_work)
        assert (await at_work.until_ended(run_id)).status is RunStatus.completed


async def test_while_the_store_is_away_it_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocking = Blocking()
    async with lane_at_work(tmp_path, [blocking.program]) as at_work:
        run_id = await blocking.blocks(at_work)
        watch = Watch(at_work)
        await watch.rounds(9)

        def away(_release: Release) -> asyncio.Future[bool]:
            raise StoreUnavailable("it is away")

        with monkeypatch.context() as outage:
            outage.setattr(at_work.store, "release", away)
            with pytest.raises(StoreUnavailable):
                await watch.rounds(1)
        assert [token.run_id for token in at_work.lanes.held()] == [run_id]
        await watch.rounds(1)
        assert at_work.lanes.held() == []
        await blocking.ends(at_work)
