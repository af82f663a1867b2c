"""A store that lost the youngest commits it had acknowledged gets them again from the turn that made them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import CANCELLATION, DELIVERY, RunStatus
from pyrula_runtime.engine.mending import Written, as_of
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from pyrula_runtime.stores.protocol import (
    Append,
    CancelRun,
    Commit,
    Committed,
    DeliverTo,
    EmitEvent,
    Ending,
    Event,
    Message,
    SubmitRun,
    Wait,
)
from pyrula_runtime.stores.seam import Crossing, Deed, Phase, Seam
from tests.engine.fake_host import FakeHost, Ops, settle
from tests.store.samples import appending, journal_of, new_run, request

LAST = 6
TOKEN = Token(run_id="r", fence=1, nonce="n")


async def many_steps(ops: Ops) -> list[Any]:
    return [await ops.step("a") for _ in range(LAST)]


async def after_three(host: FakeHost) -> None:
    """Three steps are committed, and the fourth has its outcome."""
    host.turn(many_steps)
    for number in (1, 2, 3):
        host.complete(f"a#{number}", number)
        await host.answer()
    host.complete("a#4", 4)


async def test_what_is_missing_is_written_again_before_what_is_new() -> None:
    host = FakeHost()
    await after_three(host)
    whole = list(host.journal)
    del host.journal[1:]
    new = await host.answer(Append.gap)
    again = [await host.answer() for _ in range(3)]
    assert places(again) == [1, 2, 3]
    assert again[2] == new
    assert host.journal == [*whole, *new.entries]
    assert host.lost_because is None
    assert "the store has lost the last 2 journal entries: writing them again" in host.log
    assert [told for told in host.log if told.startswith("begin")] == [f"begin a#{number}" for number in range(1, 6)]


async def test_a_loss_while_a_loss_is_mended_is_mended_too() -> None:
    host = FakeHost()
    await after_three(host)
    whole = list(host.journal)
    del host.journal[2:]
    await host.answer(Append.gap)
    del host.journal[:]
    assert (await host.answer(Append.gap)).expected_len == 2
    again = [await host.answer() for _ in range(4)]
    assert places(again) == [0, 1, 2, 3]
    assert host.journal[:3] == whole


async def test_a_turn_that_is_over_mends_nothing() -> None:
    host = FakeHost()
    turn = host.turn(many_steps)
    host.complete("a#1", 1)
    await host.answer()
    host.complete("a#2", 2)
    host.journal.clear()
    turn.suspend()
    await host.answer(Append.gap)
    assert not host.commits


def written_from(at: int, most_bytes: int = 1_000) -> Written:
    """Five commits of ten bytes, the first at position `at`."""
    written = Written(most_bytes)
    for position in range(at, at + 5):
        written.keep(appending(TOKEN, position, b"x" * 10))
    return written


def places(commits: Iterable[Commit]) -> list[int]:
    return [commit.expected_len for commit in commits]


def test_what_was_there_before_the_claim_is_not_to_be_had() -> None:
    written = written_from(5)
    assert places(written.beyond(5)) == [5, 6, 7, 8, 9]
    assert places(written.beyond(4)) == []


def test_what_is_kept_is_bounded() -> None:
    written = written_from(0, most_bytes=30)
    assert places(written.beyond(2)) == [2, 3, 4]
    assert places(written.beyond(1)) == []


def test_what_goes_with_entries_counts_as_well() -> None:
    document = b"x" * 20
    message = Message(run_id="r", message_id="m", name="go", body=document)
    effects = (
        SubmitRun(run=replace(new_run(), input=document)),
        DeliverTo(message=message, moves=DELIVERY),
        EmitEvent(event=Event(event_id="e", name="told", body=document)),
        CancelRun(run_id="r", moves=CANCELLATION),
    )
    written = Written(most_bytes=110)
    written.keep(appending(TOKEN, 0, b"x" * 10))
    written.keep(replace(appending(TOKEN, 1, b"x"), shown=document, facts=(document,), effects=effects))
    assert places(written.beyond(1)) == [1]
    written.keep(appending(TOKEN, 2, b"x" * 10))
    assert places(written.beyond(1)) == []


async def test_messages_that_were_lost_are_not_taken_for_those_that_came_since() -> None:
    """The turn was told of three messages; the store has one of them left when it has forgotten an entry as well."""
    host = FakeHost()
    turn = host.turn(many_steps)
    host.complete("a#1", 1)
    commit, first = host.commits.pop(0)
    host.journal += commit.entries
    first.set_result(Committed(append=Append.done, length=1, inbox_len=3))
    await settle()
    host.complete("a#2", 2)
    _, second = host.commits.pop(0)
    host.journal.clear()
    second.set_result(Committed(append=Append.gap, length=0, inbox_len=1))
    await settle()
    for _ in range(2):
        await host.answer()
    assert len(host.journal) == 2
    assert turn.is_over
    assert host.lost_because == "the store has lost messages that this turn has seen"


def test_a_commit_says_nothing_of_messages_that_the_store_does_not_know() -> None:
    wait = Wait(due_ms=None, inbox_seen=5, wake_status=RunStatus.queued)
    ending = Ending(status=RunStatus.waiting, wait=wait)
    said = as_of(replace(appending(TOKEN, 0, b"x", ending=ending), consumed=(2, 5)), 3)
    assert said.consumed == (2,)
    assert said.ending == replace(ending, wait=replace(wait, inbox_seen=3))
    assert as_of(said, 3) == said


class OnAStore(FakeHost):
    """The same host, with a real store behind it."""

    def __init__(self, store: Seam) -> None:
        super().__init__()
        self.store = store

    def commit(self, commit: Commit) -> asyncio.Future[Committed]:
        return self.store.commit(commit)


@pytest.mark.parametrize("nth", range(2, LAST + 1))
@pytest.mark.parametrize("left", range(LAST))
async def test_whatever_a_store_loses_the_journal_is_whole_in_the_end(nth: int, left: int) -> None:
    """Before the n-th commit all but `left` entries of the journal are lost."""
    world = World(ManualClock())
    commits = 0

    def losing(crossing: Crossing) -> Deed:
        nonlocal commits
        if crossing.verb == "commit" and crossing.phase is Phase.before:
            commits += 1
            if commits == nth:
                del world.runs[run.run_id].journal[left:]
        return Deed.go_on

    store = await opened(world)
    run = new_run("flow")
    await store.submit(run)
    (claim,) = await store.claim(request(("flow", None)))
    host = OnAStore(Seam(store, losing))
    host.turn(many_steps, claim=claim)
    for number in range(1, LAST + 1):
        host.complete(f"a#{number}", number)
        async with asyncio.timeout(10):
            while f"begin a#{number + 1}" not in host.log and "over" not in host.log:
                await settle()
    record = await store.read(run.run_id)
    assert record is not None
    assert record.result == b"[1,2,3,4,5,6]"
    assert len(await journal_of(store, run.run_id)) == LAST
    assert sum(told.startswith("begin") for told in host.log) == LAST


async def test_a_token_that_was_lost_as_well_ends_the_turn() -> None:
    world = World(ManualClock())
    store = await opened(world)
    run = new_run("flow")
    await store.submit(run)
    (claim,) = await store.claim(request(("flow", None)))
    host = OnAStore(Seam(store))
    host.turn(many_steps, claim=claim)
    host.complete("a#1", 1)
    await settle()
    world.runs[run.run_id].nonce = "of another claim, under the same fence"
    world.runs[run.run_id].journal.clear()
    host.complete("a#2", 2)
    await settle()
    assert host.lost_because == "lock lost"


async def opened(world: World) -> MemoryStore:
    store = MemoryStore(world)
    await store.open()
    return store
