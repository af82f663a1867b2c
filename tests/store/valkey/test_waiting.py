"""Waiting on a server: when the timer round is told, and what is too long for one call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import DELIVERY, DUE
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Claim, Event, Message, NewRun, Received, SubmitRun, Wake
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.shard import TAKEN_OVER_AT_ONCE
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import COMPLETED, FAILED, appending, claimed, journal_of, new_run, request, send, suspended
from tests.store.valkey.audit import audit
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.servers import shared


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


Opened = Callable[[], Awaitable[ValkeyStore]]


@pytest.fixture
async def opened(address: Address, clock: ManualClock) -> AsyncIterator[Opened]:
    """Handles on one store in told time, audited at the end."""
    async with AsyncExitStack() as stack:

        async def open_one() -> ValkeyStore:
            store = ValkeyStore(address, clock, QUICK)
            await store.open()
            stack.push_async_callback(store.close)
            return store

        yield open_one
    assert audit(address) == []


@pytest.fixture
async def store(opened: Opened) -> ValkeyStore:
    return await opened()


class Round:
    """Who makes the timer round, and how often it was told to look."""

    def __init__(self, store: ValkeyStore) -> None:
        self.told = 0
        self._store = store
        self.listening = store.listen(self._on_wake, frozenset({Wake.timer, Wake.ended}))
        self._marker = asyncio.Event()

    def _on_wake(self, wake: Wake) -> None:
        if wake is Wake.timer:
            self.told += 1
        else:
            self._marker.set()

    async def begin(self) -> None:
        await self.listening.is_heard.wait()
        await self.heard()

    async def heard(self) -> int:
        """How often it was told since it was asked last; what was published before a run's end has come with that."""
        self._marker.clear()
        claim = await claimed(self._store, workflow="marker")
        await self._store.commit(appending(claim.token, 0, ending=FAILED))
        await self._marker.wait()
        told, self.told = self.told, 0
        return told


async def end(store: ValkeyStore, claim: Claim) -> None:
    """Send a run that waits for messages on, and end it."""
    await send(store, claim.token.run_id, "m")
    (again,) = await store.claim(request(limit=1))
    assert again.token.run_id == claim.token.run_id
    await store.commit(appending(again.token, 0, ending=COMPLETED))


async def test_the_timer_round_is_told_of_a_time_before_it_would_look(opened: Opened, clock: ManualClock) -> None:
    store = await opened()
    timer = Round(await opened())
    await timer.begin()
    now = clock.wall_ms()
    first = await suspended(store, due_ms=now + 1_000)
    assert await timer.heard() == 1  # nobody would look at all
    await suspended(store, due_ms=now + 2_000)
    assert await timer.heard() == 0  # whoever looks after a second sees this one then
    await suspended(store, due_ms=now + 900)
    assert await timer.heard() == 1
    assert (await store.wake_due(DUE, 10)).next_due_ms == now + 900
    await end(store, first)
    clock.move(900)
    assert (await store.wake_due(DUE, 10)).next_due_ms == now + 2_000
    await suspended(store, due_ms=now + 1_500)
    assert await timer.heard() == 1
    timer.listening.close()


async def test_waits_that_end_before_their_time_tell_nobody_of_the_next(opened: Opened, clock: ManualClock) -> None:
    # signals with a time limit: each wait is over before the limit, and the next limit is later than the one before
    store = await opened()
    timer = Round(await opened())
    await timer.begin()
    for _ in range(5):
        claim = await suspended(store, due_ms=clock.wall_ms() + 60_000)
        await end(store, claim)
        clock.move(10)
    assert await timer.heard() == 1
    timer.listening.close()


async def test_a_time_that_nobody_came_to_look_at_does_not_silence_the_next(opened: Opened, clock: ManualClock) -> None:
    store = await opened()
    timer = Round(await opened())
    await timer.begin()
    await suspended(store, due_ms=clock.wall_ms() + 5)
    clock.move(10)  # whoever was told has died meanwhile, or lost the message with its connection
    await suspended(store, due_ms=clock.wall_ms() + 5)
    assert await timer.heard() == 2
    timer.listening.close()


async def test_nothing_is_written_while_nothing_is_due(
    store: ValkeyStore, clock: ManualClock, address: Address
) -> None:
    await suspended(store, due_ms=clock.wall_ms() + 1_000)
    await store.wake_due(DUE, 10)
    before = shared("valkey").ask("GET", f"{address.tag}ta")
    clock.move(100)
    woken = await store.wake_due(DUE, 10)
    assert (woken.woken, woken.next_due_ms, before) == (0, clock.wall_ms() + 900, str(clock.wall_ms() + 900).encode())


async def test_deferred_events_beyond_what_one_call_may_take_are_taken_over_too(store: ValkeyStore) -> None:
    count = TAKEN_OVER_AT_ONCE * 2 + 1
    events = [Event(event_id=f"e{number}", name="order.created", body=b"") for number in range(count)]
    await asyncio.gather(*[store.emit(event) for event in events])
    await store.subscribe("ship", None, frozenset({"order.created", "order.paid"}))
    pending = await store.events_pending(frozenset({"ship"}), count + 1)
    assert [each.event.event_id for each in pending] == [event.event_id for event in events]


@pytest.mark.parametrize("as_effect", [False, True])
async def test_a_run_can_begin_with_a_long_journal(store: ValkeyStore, *, as_effect: bool) -> None:
    journal = tuple(b"%d" % number for number in range(12_000))
    fork = replace(new_run("copy", "3"), journal=journal, generation=2)
    if as_effect:
        claim = await claimed(store)
        await store.commit(replace(appending(claim.token, 0, b"a"), effects=(SubmitRun(run=fork),)))
    else:
        await store.submit(fork)
    (claim,) = await store.claim(request(("copy", "3")))
    assert (claim.journal_len, claim.journal_bytes, claim.generation) == (12_000, sum(map(len, journal)), 2)
    assert tuple(await journal_of(store, fork.run_id)) == journal


async def test_priorities_have_room_up_to_their_bounds(store: ValkeyStore) -> None:
    def of(priority: int) -> NewRun:
        return replace(new_run(), priority=priority)

    runs = [of(priority) for priority in (-1000, 999, 0, 1000, 1000, -999)]
    for run in runs:
        await store.submit(run)
    claims = await store.claim(request())
    assert [claim.token.run_id for claim in claims] == [runs[at].run_id for at in (3, 4, 1, 2, 5, 0)]
    for run in runs:
        record = await store.read(run.run_id)
        assert record is not None
        assert record.priority == run.priority
    with pytest.raises(UsageError, match=r"priority 1001 of run \S+ must be from -1000 to 1000"):
        await store.submit(of(1001))


async def test_a_message_is_given_as_it_came(store: ValkeyStore) -> None:
    claim = await suspended(store)
    odd = Message(run_id=claim.token.run_id, message_id="child/ü]\0[1,2]", name="[paid]", body=os.urandom(1_000))
    await store.deliver(odd, DELIVERY)
    (letter,) = await store.read_inbox(claim.token.run_id, 0)
    assert letter == Received(seq=1, message_id=odd.message_id, name=odd.name, body=odd.body)


async def test_of_a_wait_that_a_former_version_wrote_people_are_told_that_it_is_for_some_message(
    store: ValkeyStore, address: Address
) -> None:
    claim = await suspended(store)
    shared("valkey").ask("HSET", f"{address.tag}r:{claim.token.run_id}", "h", "1")
    record = await store.read(claim.token.run_id)
    assert record is not None
    assert record.awaits == ""
