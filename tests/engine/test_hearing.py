"""A turn that waits for signals: those that came with the claim, those that come later, and those nobody hears."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from pyrula_runtime.core.entries import Completed, Entry, Failed, Op, OpKind, Requeued
from pyrula_runtime.core.errors import SignalTimeout
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.engine.codec import dump_entry
from pyrula_runtime.engine.turn import Turn
from pyrula_runtime.stores.protocol import Commit, Received, Wait
from tests.engine.fake_host import BodyFunction, FakeHost, Ops, claim_of, program

GO = Op(op_id="go#1", kind=OpKind.signal, name="go")


def received(seq: int, name: str = "go", value: Any = None) -> Received:
    return Received(seq=seq, message_id=f"m{seq}", name=name, body=orjson.dumps(value))


def turned(
    host: FakeHost, body: BodyFunction, inbox: Sequence[Received] = (), told: int | None = None, **fields: Any
) -> Turn:
    """A turn whose claim brings these messages, and says how many ever came."""
    journal: Sequence[Entry] = fields.pop("journal", ())
    raw = [dump_entry(entry) for entry in journal]
    inbox_len = len(inbox) if told is None else told
    skipped = fields.pop("skipped", False)
    claim = claim_of(raw, now_ms=host.clock_ms, inbox=tuple(inbox), inbox_len=inbox_len, inbox_skipped=skipped)
    turn = Turn(claim, program(body, **fields), journal, host)
    turn.begin()
    return turn


def last(host: FakeHost) -> Commit:
    return host.commits[-1][0]


def wait_of(host: FakeHost) -> Wait:
    ending = last(host).ending
    assert ending is not None
    assert ending.wait is not None
    return ending.wait


async def hears(ops: Ops) -> list[Any]:
    return [await ops.signal(), await ops.signal()]


async def test_a_run_that_hears_says_which_message_it_has_seen_last() -> None:
    host = FakeHost()
    turned(host, hears)
    assert (wait_of(host).due_ms, wait_of(host).inbox_seen) == (None, 0)
    host = FakeHost()
    turned(host, hears, [received(1, "else"), received(2, "else")])
    assert wait_of(host).inbox_seen == 2


async def test_messages_that_nobody_hears_wake_nobody() -> None:
    async def sleeps(ops: Ops) -> None:
        await ops.sleep(60_000)

    host = FakeHost()
    turned(host, sleeps, [received(1)], told=7)
    assert wait_of(host).inbox_seen is None
    assert host.reading == []


async def test_signals_that_came_before_are_taken_in_order_and_consumed_with_their_entries() -> None:
    host = FakeHost()
    turned(host, hears, [received(3, value="a"), received(4, "else"), received(5, value="b")], told=5)
    commit = last(host)
    assert commit.ending is not None
    assert (commit.ending.status, commit.ending.result) == (RunStatus.completed, b'["a","b"]')
    assert (len(commit.entries), commit.consumed) == (2, (3, 5))


async def test_a_signal_that_comes_while_a_step_runs_is_read_and_let_in() -> None:
    async def both(ops: Ops) -> list[Any]:
        return list(await asyncio.gather(ops.step("a"), ops.signal()))

    host = FakeHost()
    turn = turned(host, both)
    assert host.commits == []
    turn.heard(1)
    assert host.reading == [0]
    turn.heard(1)
    assert host.reading == [0]
    turn.letters([received(1, value=7)])
    commit = await host.answer()
    assert commit.consumed == (1,)
    host.complete("a#1")
    assert last(host).ending is not None
    assert last(host).consumed == ()


async def test_a_commit_tells_of_messages_as_well() -> None:
    async def both(ops: Ops) -> None:
        await asyncio.gather(ops.step("a"), ops.step("b"), ops.signal())

    host = FakeHost()
    turned(host, both)
    host.complete("a#1")
    await host.answer(inbox_len=4)
    assert host.reading == [0]


async def test_it_reads_on_until_it_has_seen_all_that_it_was_told_of_and_only_then_suspends() -> None:
    host = FakeHost()
    turn = turned(host, hears, [received(1, "else")], told=5)
    assert (host.commits, host.reading) == ([], [1])
    turn.letters([received(2, "else"), received(3, "else")])
    assert (host.commits, host.reading) == ([], [1, 3])
    turn.letters([])  # the others were consumed long ago
    assert wait_of(host).inbox_seen == 5


async def test_what_comes_while_it_reads_is_read_next() -> None:
    host = FakeHost()
    turn = turned(host, hears, [received(1, "else")], told=2)
    turn.heard(3)
    turn.letters([])
    assert host.reading == [1, 2]
    turn.letters([received(3, "else")])
    assert wait_of(host).inbox_seen == 3


async def test_a_signal_that_does_not_come_in_time_is_a_timeout_in_the_journal() -> None:
    async def asks(ops: Ops) -> str:
        with pytest.raises(SignalTimeout, match="too late"):
            await ops.signal(for_ms=60_000)
        return "went on"

    host = FakeHost()
    turned(host, asks)
    assert (wait_of(host).due_ms, wait_of(host).inbox_seen) == (61_000, 0)
    await host.answer()
    host.clock_ms = 61_000
    turned(host, asks)
    await host.answer()
    assert host.status is RunStatus.completed
    (entry,) = host.entries
    assert isinstance(entry, Failed)
    assert (entry.op, entry.error.type) == (GO, "SignalTimeout")


async def test_a_signal_that_comes_in_time_wins_though_the_time_is_over_when_it_is_seen() -> None:
    async def asks(ops: Ops) -> Any:
        return await ops.signal(for_ms=60_000)

    host = FakeHost()
    host.clock_ms = 99_000
    turned(host, asks, [received(1, value="in time")])
    await host.answer()
    assert host.ended is not None
    assert host.ended.ending is not None
    assert host.ended.ending.result == b'"in time"'


async def test_signals_of_entries_that_a_requeue_voided_come_again() -> None:
    journal: list[Entry] = [
        Completed(op=GO, at_ms=2_000, value="first", message=1),
        Requeued(at_ms=3_000, void_from=0),
    ]
    host = FakeHost()
    turned(host, hears, [received(2, value="second")], told=2, journal=journal)
    commit = last(host)
    assert commit.ending is not None
    assert commit.ending.result == b'["first","second"]'
    assert commit.consumed == (1, 2)


async def test_a_signal_too_large_for_the_journal_is_an_error_in_the_body() -> None:
    async def asks(ops: Ops) -> Any:
        return await ops.signal()

    host = FakeHost()
    turned(host, asks, [received(1, value="x" * 999_990)])
    await host.answer()
    assert host.status is RunStatus.failed
    assert host.ended is not None
    assert host.ended.consumed == (1,)


async def test_messages_that_the_claim_had_no_room_for_are_read_before_the_turn_waits_for_more() -> None:
    host = FakeHost()
    turn = turned(host, hears, told=3, skipped=True)
    assert (host.commits, host.reading) == ([], [0])
    turn.letters([received(2, value="a"), received(3, value="b")])  # the first was consumed long ago
    commit = last(host)
    assert commit.ending is not None
    assert (commit.ending.status, commit.ending.result) == (RunStatus.completed, b'["a","b"]')
    assert commit.consumed == (2, 3)


async def test_of_messages_that_came_and_were_consumed_the_claim_brings_none_and_nobody_reads_them() -> None:
    host = FakeHost()
    turned(host, hears, told=3)
    assert host.reading == []
    assert wait_of(host).inbox_seen == 3


async def test_a_claim_without_room_for_messages_of_which_all_were_consumed_waits_for_the_next() -> None:
    host = FakeHost()
    turn = turned(host, hears, told=3, skipped=True)
    turn.letters([])
    assert host.reading == [0]
    assert wait_of(host).inbox_seen == 3
