"""Isolated turns: each on a thread and loop of its own, beside a shared lane, and gone when they are over."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.program import Operations, Program, SyncOperations
from pyrula_runtime.options import Isolation
from tests.engine.isolated import Gate, flow, gone, where
from tests.engine.lanes import CAPACITY, LIMIT_S, lane_at_work, same, step


@pytest.mark.parametrize(
    ("own", "otherwise", "thread"),
    [
        (None, "lane", "pyrula-lane"),
        (None, "turn", "pyrula-turn"),
        ("turn", "lane", "pyrula-turn"),
        ("lane", "turn", "pyrula-lane"),
    ],
)
async def test_a_workflow_says_where_its_turns_run_and_else_its_worker(
    tmp_path: Path, own: Isolation | None, otherwise: Isolation, thread: str
) -> None:
    async with lane_at_work(tmp_path, [flow(step(where), isolation=own)], isolation=otherwise) as at_work:
        assert thread in ((await at_work.run("flow")).result or b"").decode()


async def test_each_isolated_turn_has_a_loop_of_its_own(tmp_path: Path) -> None:
    meeting = threading.Barrier(CAPACITY, timeout=LIMIT_S)

    async def meet() -> str:
        meeting.wait()  # all of them block at once
        return await where()

    async with lane_at_work(tmp_path, [flow(step(meet))]) as at_work:
        runs = [await at_work.submit("flow") for _ in range(CAPACITY)]
        await at_work.claim()
        places = {(await at_work.until_ended(run_id)).result for run_id in runs}
    assert len(places) == CAPACITY


async def test_a_plain_workflow_has_its_thread_and_shares_the_lane(tmp_path: Path) -> None:
    def body(operations: SyncOperations, _input: Json) -> Any:
        return [threading.current_thread().name, operations.ask([step(where)])[0]]

    program = Program(name="flow", version=None, run=body, to_json=same)
    async with lane_at_work(tmp_path, [program], isolation="turn") as at_work:
        result = (await at_work.run("flow")).result or b""
    assert b"pyrula-body" in result
    assert b"pyrula-lane" in result


async def test_a_turn_that_blocks_delays_nobody(tmp_path: Path) -> None:
    gate = Gate()
    programs = [flow(gate.call, "blocked"), flow(step(where), "beside"), flow(step(where), "shared", "lane")]
    async with lane_at_work(tmp_path, programs) as at_work:
        blocked = await at_work.submit("blocked")
        await at_work.claim()
        await gate.until_began()
        assert (await at_work.run("beside")).status is RunStatus.completed
        assert (await at_work.run("shared")).status is RunStatus.completed
        for _ in ("beside", "shared"):
            await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert [token.run_id for token in at_work.lanes.held()] == [blocked]
        assert "self.open.wait" in at_work.lanes.stack()
        gate.open.set()
        assert (await at_work.until_ended(blocked)).status is RunStatus.completed


async def test_claims_that_come_with_a_last_commit_go_where_they_belong(tmp_path: Path) -> None:
    programs = [flow(step(where), "isolated"), flow(step(where), "shared", "lane")]
    async with lane_at_work(tmp_path, programs) as at_work:
        runs = [
            (name, await at_work.submit(name)) for name in ["isolated", "shared", "isolated", "isolated"] * CAPACITY
        ]
        await at_work.claim()  # no more than there are slots; each run that ends brings the next
        for name, run_id in runs:
            place = ((await at_work.until_ended(run_id)).result or b"").decode()
            assert ("pyrula-turn" in place) is (name == "isolated")
        for _ in range(CAPACITY):
            await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        await gone(at_work)
        assert at_work.lanes.turns_done == len(runs)
        assert at_work.setup.slots.in_use == 0
        assert at_work.lanes.held() == []


async def test_a_cancel_and_a_lost_lock_reach_an_isolated_turn(tmp_path: Path) -> None:
    began = threading.Semaphore(0)

    async def wait() -> None:
        began.release()
        await asyncio.Event().wait()

    async with lane_at_work(tmp_path, [flow(step(wait))]) as at_work:
        cancelled, lost = await at_work.submit("flow"), await at_work.submit("flow")
        await at_work.claim()
        for _ in (cancelled, lost):
            assert await asyncio.to_thread(began.acquire, timeout=LIMIT_S)
        at_work.lanes.cancel([cancelled])
        assert (await at_work.until_ended(cancelled)).status is RunStatus.cancelled
        at_work.lanes.drop([token for token in at_work.lanes.held() if token.run_id == lost])
        for _ in (cancelled, lost):
            await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        await gone(at_work)
        assert at_work.setup.slots.in_use == 0
        record = await at_work.store.read(lost)
        assert record is not None
        assert record.status is RunStatus.running  # it is whoever's it is now


async def test_a_forsworn_claim_starts_no_isolated_turn(tmp_path: Path) -> None:
    async with lane_at_work(tmp_path, [flow(step(where))]) as at_work:
        await at_work.submit("flow")
        at_work.setup.slots.take_all()
        (claim,) = await at_work.store.claim(at_work.setup.claim_request(1))
        at_work.setup.slots.give(CAPACITY - 1)
        assert at_work.lanes.forswear(claim.token)
        at_work.lanes.take([claim])
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        await gone(at_work)
        assert at_work.lanes.turns_done == 0
        assert at_work.setup.slots.in_use == 0


async def test_what_is_held_cannot_be_forsworn(tmp_path: Path) -> None:
    gate = Gate()
    async with lane_at_work(tmp_path, [flow(gate.call)]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        await gate.until_began()
        (token,) = at_work.lanes.held()
        assert not at_work.lanes.forswear(token)
        gate.open.set()
        assert (await at_work.until_ended(run_id)).status is RunStatus.completed


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_drain_hands_isolated_runs_back(tmp_path: Path, kind: str) -> None:
    began, release = threading.Event(), threading.Event()

    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    def block() -> None:
        began.set()
        release.wait(LIMIT_S)

    async with lane_at_work(tmp_path, [flow(step(wait if kind == "async" else block))]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        assert await asyncio.to_thread(began.wait, LIMIT_S)
        at_work.lanes.drain()
        (turn,) = at_work.lanes.isolated()
        suspending = asyncio.create_task(at_work.lanes.suspend_all(LIMIT_S))
        await asyncio.sleep(0)  # it has begun
        # whatever the lane does after this, it has begun to suspend before
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), turn.lane.loop))
        release.set()
        await asyncio.wait_for(suspending, LIMIT_S)
        record = await at_work.store.read(run_id)
        assert record is not None
        assert record.status is RunStatus.queued
        assert at_work.lanes.held() == []
        await gone(at_work)
        assert at_work.setup.slots.in_use == 0
        await at_work.claim()  # what comes now is too late
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert at_work.lanes.turns_done == 0


async def test_a_turn_that_was_given_up_unwinds_when_it_comes_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    came_round = threading.Event()
    gate = Gate()

    def start(operations: Operations, _input: Json) -> Coroutine[Any, Any, Any]:
        async def body() -> None:
            try:
                await operations.ask(gate.call)
                await operations.ask(step(where))
                came_round.set()
            finally:
                at_end.append(came_round.is_set())

        return body()

    at_end: list[bool] = []
    program = Program(name="flow", version=None, start=start, to_json=same, isolation="turn")
    async with lane_at_work(tmp_path, [program]) as at_work:
        await at_work.submit("flow")
        await at_work.claim()
        await gate.until_began()
        (turn,) = at_work.lanes.isolated()
        at_work.lanes.give_up(turn)
        assert at_work.lanes.held() == []
        assert at_work.setup.slots.in_use == 0
        assert at_work.freed.qsize() == 1
        at_work.lanes.give_up(turn)  # once is enough
        assert at_work.setup.slots.in_use == 0
        gate.open.set()
        await asyncio.to_thread(turn.lane.thread.join, LIMIT_S)
        assert at_work.setup.slots.in_use == 0
        assert at_work.freed.qsize() == 1
        assert at_work.lanes.turns_done == 0
    assert at_end == [False]


async def test_a_run_that_came_for_a_turn_that_was_over_counts_once(tmp_path: Path) -> None:
    gate = Gate()
    async with lane_at_work(tmp_path, [flow(gate.call)]) as at_work:
        first, second = await at_work.submit("flow"), await at_work.submit("flow")
        slots = at_work.setup.slots
        slots.take_all()
        (claim,) = await at_work.store.claim(at_work.setup.claim_request(1))
        slots.give(CAPACITY - 1)
        at_work.lanes.take([claim])
        await gate.until_began()
        (turn,) = at_work.lanes.isolated()
        (late,) = await at_work.store.claim(at_work.setup.claim_request(1))
        gate.open.set()
        assert (await at_work.until_ended(first)).status is RunStatus.completed
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert slots.in_use == 0
        turn.lane.adopt([late])  # as the answer to a commit would
        assert (await at_work.until_ended(second)).status is RunStatus.completed
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        await gone(at_work)
        assert slots.in_use == 0
