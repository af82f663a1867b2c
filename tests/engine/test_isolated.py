"""The lane of one turn: what is written down of it, and what becomes of all that the turn leaves there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pyrula_runtime.blackbox import NO_SLOT, Place
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.isolated import IsolatedTurn
from pyrula_runtime.engine.loop_local import lane_local
from pyrula_runtime.engine.presence import Unrecorded
from tests.engine.isolated import flow, gone, where
from tests.engine.lanes import LIMIT_S, lane_at_work, step


class Thing:
    """What a factory makes: closed or not, and in which thread."""

    def __init__(self) -> None:
        self.closed_in = ""


class Closed(Thing):
    def close(self) -> None:
        self.closed_in = threading.current_thread().name


class ClosedByAwait(Thing):
    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed_in = threading.current_thread().name


class ClosedBadly(Thing):
    def close(self) -> None:
        raise OSError("it is stuck")


async def test_what_a_turn_leaves_on_its_loop_is_cleared_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    things: list[Thing] = []
    ends: list[str] = []

    def made(kind: Callable[[], Thing]) -> Callable[[], Thing]:
        def make() -> Thing:
            things.append(kind())
            return things[-1]

        return lane_local(make)

    locals_ = [made(ClosedByAwait), made(ClosedBadly), made(Closed), made(Thing)]

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ends.append("generator")

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("task")

    kept: list[Any] = []

    async def use() -> None:
        assert [local() for local in locals_] == [local() for local in locals_] == things
        generator = numbers()
        await anext(generator)
        kept.extend((generator, asyncio.create_task(linger()), asyncio.get_running_loop()))
        await asyncio.to_thread(threading.get_ident)

    async with lane_at_work(tmp_path, [flow(step(use))]) as at_work:
        assert (await at_work.run("flow")).status is RunStatus.completed
        await gone(at_work)
    assert kept[2].is_closed()
    assert sorted(ends) == ["generator", "task"]
    assert [each.closed_in for each in things] == ["pyrula-turn", "", "pyrula-turn", ""]
    assert "ClosedBadly" not in caplog.text  # it is told by what made it
    assert "closing what it made failed: OSError('it is stuck')" in caplog.text


async def test_a_turn_that_stops_its_loop_stops_nothing(tmp_path: Path) -> None:
    async def stop() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 1

    async with lane_at_work(tmp_path, [flow(step(stop))]) as at_work:
        assert (await at_work.run("flow")).result == b"1"
        await gone(at_work)
        assert at_work.failures.empty()


async def test_without_threads_to_be_had_a_turn_shares_the_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_turn: IsolatedTurn) -> None:
        _turn.lane.loop.close()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(IsolatedTurn, "start", refuse)
    async with lane_at_work(tmp_path, [flow(step(where))]) as at_work:
        assert b"pyrula-lane" in ((await at_work.run("flow")).result or b"")
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        assert at_work.lanes.turns_done == 1
        assert at_work.setup.slots.in_use == 0
    assert "gets no thread of its own" in caplog.text


class Threads(Unrecorded):
    """A presence that keeps who was where."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, str, int]] = []
        self.there: dict[int, Place] = {}
        self.held: set[str] = set()

    def enter_lane(self, place: Place, ms: int) -> None:
        raise AssertionError("nobody shares the lane")

    def enter_thread(self, place: Place, ms: int) -> int:
        slot = len(self.entered)
        self.entered.append((place.run_id, place.step, threading.get_ident()))
        self.there[slot] = place
        return slot

    def leave_thread(self, slot: int) -> None:
        if slot != NO_SLOT:
            del self.there[slot]

    def hold(self, run_id: str, fence: int) -> int:
        self.held.add(run_id)
        return 0


async def test_an_isolated_turn_is_written_down_among_the_threads(tmp_path: Path) -> None:
    presence = Threads()

    async def ask() -> int:
        await asyncio.sleep(0)
        assert len(presence.there) == 1
        return threading.get_ident()

    async with lane_at_work(tmp_path, [flow(step(ask))], presence) as at_work:
        record = await at_work.run("flow")
        await gone(at_work)
    assert record.result is not None, record.error
    assert set(presence.entered) == {
        (record.run_id, "", int(record.result)),
        (record.run_id, "ask", int(record.result)),
    }
    assert presence.there == {}
    assert presence.held == {record.run_id}


async def test_isolated_turns_have_the_kind_of_loop_that_the_process_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio, "new_event_loop", uvloop.new_event_loop)
    things: list[ClosedByAwait] = []

    def make() -> ClosedByAwait:
        things.append(ClosedByAwait())
        return things[-1]

    local = lane_local(make)

    async def kind() -> bool:
        assert local() is local()
        await asyncio.create_task(asyncio.sleep(0))
        return isinstance(asyncio.get_running_loop(), uvloop.Loop)

    async with lane_at_work(tmp_path, [flow(step(kind))]) as at_work:
        assert (await at_work.run("flow")).result == b"true"
        await gone(at_work)
    assert [each.closed_in for each in things] == ["pyrula-turn"]
