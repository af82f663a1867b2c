"""A turn whose replay was long: it stays for a while, takes messages as they come, and keeps nobody waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from pyrula_runtime.core.entries import Completed, Entry, Op, OpKind
from pyrula_runtime.core.errors import SignalTimeout
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import Received, Wait
from tests.engine.fake_host import BodyFunction, FakeHost, Ops, claim_of, program
from tests.engine.lanes import LIMIT_S, lane_at_work

REPLAY_MS = 100


def received(seq: int, name: str = "go") -> Received:
    return Received(seq=seq, message_id=f"m{seq}", name=name, body=orjson.dumps(seq))


def turned(host: FakeHost, body: BodyFunction, journal: Sequence[Entry] = ()) -> Turn:
    turn = Turn(claim_of(now_ms=host.clock_ms), program(body), journal, host)
    turn.begin()
    return turn


def slowly(host: FakeHost, body: BodyFunction, replay_ms: int = REPLAY_MS) -> BodyFunction:
    """The same, but it takes so long to come to where it waits first."""

    async def slow(ops: Ops) -> Any:
        host.clock_ms += replay_ms
        return await body(ops)

    return slow


async def hears(ops: Ops) -> list[Any]:
    return [await ops.signal(), await ops.signal()]


async def sleeps(ops: Ops) -> None:
    await ops.sleep(60_000)


def wait_of(host: FakeHost) -> Wait:
    ((commit, _),) = host.commits
    assert commit.entries == ()
    assert commit.ending is not None
    assert commit.ending.wait is not None
    return commit.ending.wait


async def test_it_stays_for_as_long_as_its_replay_took_and_then_suspends() -> None:
    host = FakeHost()
    turn = turned(host, slowly(host, hears))
    host.clock_ms += REPLAY_MS - 1
    turn.parked()
    assert host.commits == []
    host.clock_ms += 1
    turn.parked()
    assert wait_of(host).inbox_seen == 0


async def test_a_timer_ends_the_stay() -> None:
    host = FakeHost()
    turned(host, slowly(host, hears, 20))
    host.clock_ms += 20
    await asyncio.wait_for(host.committing.wait(), LIMIT_S)
    assert wait_of(host).inbox_seen == 0


async def test_what_comes_meanwhile_is_taken_at_once_and_the_stay_is_counted_anew() -> None:
    host = FakeHost()
    turn = turned(host, slowly(host, hears))
    host.clock_ms += REPLAY_MS - 1
    turn.heard(1)
    turn.letters([received(1)])
    commit = await host.answer()
    assert (len(commit.entries), commit.consumed, commit.ending) == (1, (1,), None)
    host.clock_ms += REPLAY_MS - 1
    turn.parked()
    assert host.commits == []
    turn.heard(2)
    turn.letters([received(2)])
    commit = await host.answer()
    assert commit.consumed == (2,)
    assert host.status is RunStatus.completed


async def test_many_messages_that_come_close_upon_each_other_cost_no_replay() -> None:
    async def many(ops: Ops) -> int:
        return len(await asyncio.gather(*(ops.signal() for _ in range(300))))

    host = FakeHost()
    turn = turned(host, slowly(host, many))
    for seq in range(1, 301):
        host.clock_ms += REPLAY_MS // 2
        turn.parked()
        turn.heard(seq)
        turn.letters([received(seq)])
        await host.answer()
    assert (host.status, len(host.entries)) == (RunStatus.completed, 300)


async def test_messages_that_nobody_hears_do_not_lengthen_the_stay() -> None:
    host = FakeHost()
    turn = turned(host, slowly(host, hears))
    host.clock_ms += REPLAY_MS - 1
    turn.heard(1)
    turn.letters([received(1, "else")])
    host.clock_ms += 1
    turn.parked()
    assert wait_of(host).inbox_seen == 1


async def test_time_in_which_something_is_written_or_done_is_no_stay() -> None:
    async def works(ops: Ops) -> None:
        await asyncio.gather(ops.step("a"), ops.signal())

    host = FakeHost()
    turn = turned(host, slowly(host, works))
    host.clock_ms += 5_000
    host.complete("a#1")
    host.clock_ms += 5_000
    await host.answer()
    assert host.commits == []
    host.clock_ms += REPLAY_MS
    turn.parked()
    assert wait_of(host).inbox_seen == 0


async def test_a_time_that_comes_during_the_stay_is_taken_too() -> None:
    async def asks(ops: Ops) -> str:
        try:
            return str(await ops.signal(for_ms=1_300))
        except SignalTimeout:
            return "late"

    host = FakeHost()
    turn = turned(host, slowly(host, asks, 1_000))
    host.clock_ms += 299
    turn.parked()
    assert host.commits == []
    host.clock_ms += 1
    turn.parked()
    await host.answer()
    assert host.status is RunStatus.completed


async def test_whoever_waits_for_time_alone_or_came_here_quickly_does_not_stay() -> None:
    host = FakeHost()
    turned(host, slowly(host, sleeps))
    assert wait_of(host).inbox_seen is None
    host = FakeHost()
    turned(host, slowly(host, hears, 9))
    assert wait_of(host).inbox_seen == 0


async def test_nobody_who_waits_for_its_end_is_kept_waiting() -> None:
    host = FakeHost()
    host.in_haste = True
    turned(host, slowly(host, hears))
    assert wait_of(host).inbox_seen == 0
    host = FakeHost()
    turn = turned(host, slowly(host, hears))
    host.in_haste = True
    turn.parked()
    assert wait_of(host).inbox_seen == 0


async def test_a_turn_that_is_stopped_while_it_stays_writes_nothing() -> None:
    host = FakeHost()
    turn = turned(host, slowly(host, hears, 20))
    turn.suspend()
    host.clock_ms += 20
    turn.heard(1)
    turn.letters([received(1)])
    assert (turn.is_over, host.commits) == (True, [])


async def test_the_journal_is_the_same_whether_it_stayed_or_not() -> None:
    def came(op_id: str, seq: int, at_ms: int) -> Completed:
        return Completed(op=Op(op_id=op_id, kind=OpKind.signal, name="go"), at_ms=at_ms, value=seq, message=seq)

    host = FakeHost()
    turn = turned(host, slowly(host, hears))
    turn.heard(1)
    turn.letters([received(1)])
    await host.answer()
    assert host.entries == [came("go#1", 1, 1_100)]
    host.clock_ms += REPLAY_MS
    turn.parked()
    await host.answer()
    assert host.status is RunStatus.waiting
    turn = turned(host, hears, host.entries)
    (commit, _) = host.commits[-1]
    assert commit.ending is not None
    assert (commit.entries, commit.ending.status) == ((), RunStatus.waiting)


async def in_round(post: Callable[..., object]) -> None:
    """Return when the lane has done all that it had to do."""
    came_round = threading.Event()
    post(came_round.set)
    assert await asyncio.to_thread(came_round.wait, LIMIT_S)


async def test_a_drain_ends_the_stay(tmp_path: Path) -> None:
    now_ms = [0]
    has_come = threading.Event()

    async def slow(ops: Ops) -> Any:
        now_ms[0] += 5_000  # and from here on the clock stands still, so that no stay is ever over
        has_come.set()
        return await ops.signal()

    async with lane_at_work(tmp_path, [program(slow)], mono_ms=lambda: now_ms[0]) as at_work:
        run_id = await at_work.submit("flow")
        await at_work.claim()
        assert await asyncio.to_thread(has_come.wait, LIMIT_S)
        await in_round(at_work.lane.post)
        assert [token.run_id for token in at_work.lanes.held()] == [run_id]
        at_work.lanes.drain()
        await asyncio.to_thread(at_work.freed.get, timeout=LIMIT_S)
        record = await at_work.store.read(run_id)
        assert record is not None
        assert record.status is RunStatus.waiting
