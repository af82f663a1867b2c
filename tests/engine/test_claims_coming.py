"""Claims on their way to a lane: counted once, never missed, never begun when it is too late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyrula_runtime.core.entries import Json
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.program import Program, SyncOperations
from pyrula_runtime.stores.protocol import Claim
from tests.engine.lanes import CAPACITY, LIMIT_S, LaneAtWork, lane_at_work, same


class Gated:
    """A plain workflow that waits in its body until it is let go."""

    def __init__(self) -> None:
        self.began, self.gate = threading.Event(), threading.Event()
        self.program = Program(name="flow", version=None, run=self._run, to_json=same)

    def _run(self, _operations: SyncOperations, _input: Json) -> None:
        self.began.set()
        self.gate.wait(LIMIT_S)


async def claimed(at_work: LaneAtWork) -> Claim:
    await at_work.submit("flow")
    (claim,) = await at_work.store.claim(at_work.setup.claim_request(1))
    return claim


async def test_a_claim_that_becomes_a_turn_meanwhile_is_seen_once(tmp_path: Path) -> None:
    flow = Gated()
    async with lane_at_work(tmp_path, [flow.program]) as at_work:
        claim = await claimed(at_work)
        lane = at_work.lane

        class Slow(dict[str, Any]):
            def values(self) -> Any:
                """The claim becomes a turn while somebody goes through the turns."""
                found = list(super().values())
                if claim.token in lane._intake.coming:
                    self[claim.token.run_id] = type("_Turn", (), {"claim": claim, "run_id": claim.token.run_id})()
                    lane._intake.coming.done(claim.token)
                return found

        lane._turns = Slow()
        lane._intake.coming.add([claim.token])
        assert lane.held() == [claim.token]
        assert lane.held() == [claim.token]


async def test_a_run_that_came_for_a_turn_without_a_slot_counts_all_the_same(tmp_path: Path) -> None:
    flow = Gated()
    async with lane_at_work(tmp_path, [flow.program]) as at_work:
        claim = await claimed(at_work)
        slots = at_work.setup.slots
        assert slots.take_all() == CAPACITY
        at_work.lane.post(at_work.lane.adopt, [claim])
        assert await asyncio.to_thread(flow.began.wait, LIMIT_S)
        assert slots.take_all() == 0
        flow.gate.set()
        assert (await at_work.until_ended(claim.token.run_id)).status is RunStatus.completed
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        slots.give(CAPACITY)
        assert slots.take_all() == CAPACITY


async def test_a_journal_read_during_the_drain_begins_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Gated()
    async with lane_at_work(tmp_path, [flow.program]) as at_work:
        claim = await claimed(at_work)

        def read(run_id: str, start: int) -> Awaitable[tuple[bytes, ...]]:
            at_work.lane.drain()
            answer: asyncio.Future[tuple[bytes, ...]] = asyncio.get_running_loop().create_future()
            answer.set_result((b'{"k":"c","at":1}',))
            return answer

        monkeypatch.setattr(at_work.store, "read_journal", read)
        at_work.lane.take([replace(claim, journal_len=1)])
        async with asyncio.timeout(LIMIT_S):
            while (record := await at_work.store.read(claim.token.run_id)) and record.status is RunStatus.running:
                await asyncio.to_thread(threading.active_count)
    assert record is not None
    assert record.status is RunStatus.queued
    assert not flow.began.is_set()


async def test_a_run_whose_journal_has_become_shorter_since_the_claim_goes_back(tmp_path: Path) -> None:
    flow = Gated()
    async with lane_at_work(tmp_path, [flow.program]) as at_work:
        claim = await claimed(at_work)
        at_work.lane.take([replace(claim, journal_len=1)])  # which the store does not have
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        async with asyncio.timeout(LIMIT_S):
            while (record := await at_work.store.read(claim.token.run_id)) and record.status is RunStatus.running:
                await asyncio.to_thread(threading.active_count)
    assert record is not None
    assert record.status is RunStatus.queued
    assert not flow.began.is_set()
