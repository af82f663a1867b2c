"""What other systems on such servers were hurt by, and each here once: the name says what is protected.

What holds for every kind of store is in the contract; lost calls, patience, full memory and wakes have files of their
own beside this one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import DELIVERY, DUE, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Append, NewRun, Submission, Wake
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import (
    COMPLETED,
    DAY_MS,
    FAILED,
    TTL_MS,
    appending,
    claimed,
    message,
    new_run,
    request,
    status_of,
    until,
    waiting,
)
from tests.store.valkey.audit import audit
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.proxy import Deed, Fault, Proxy
from tests.store.valkey.servers import SURE, Server, free_ports

Opened = Callable[..., Awaitable[ValkeyStore]]
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def timed(address: Address, clock: ManualClock) -> AsyncIterator[ValkeyStore]:
    """A store on a clock that the test moves."""
    store = ValkeyStore(address, clock, QUICK)
    await store.open()
    yield store
    await store.close()
    assert audit(address) == []


async def test_of_scripts_sent_together_only_the_unknown_one_is_sent_again(opened: Opened, server: Server) -> None:
    road = Proxy(server.socket)
    await road.open()
    store = await opened(road.address())
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"a"))
    server.ask("SCRIPT", "FLUSH")
    await store.renew([claim.token], TTL_MS)  # the server knows this one again, and no other
    before = dict(road.events)
    renewing = [store.renew([claim.token], TTL_MS) for _ in range(3)]
    committing = store.commit(appending(claim.token, 1, b"b"))
    assert (await committing).append is Append.done
    await asyncio.gather(*renewing)
    assert {name: road.events[name] - before[name] for name in ("renew", "append")} == {"renew": 3, "append": 2}
    await store.close()
    await road.close()


async def test_ready_work_starts_at_once_though_something_is_to_come_later(
    opened: Opened, timed: ValkeyStore, address: Address, clock: ManualClock
) -> None:
    # elsewhere the mark of a delayed job took the place of the mark that there is work now
    heard = asyncio.Event()
    listening = timed.listen(lambda wake: heard.set(), frozenset({Wake.ready}))
    await listening.is_heard.wait()
    assert await timed.claim(request()) == ()
    later = _later(clock.wall_ms() + HOUR_MS)
    heard.clear()
    await timed.submit(later)
    await timed.submit(new_run())
    await asyncio.wait_for(heard.wait(), 10)
    assert [claim.token.run_id == later.run_id for claim in await timed.claim(request())] == [False]
    listening.close()


def _later(start_at_ms: int) -> NewRun:
    plain = new_run()
    return NewRun(
        run_id=plain.run_id,
        workflow=plain.workflow,
        version=None,
        input=plain.input,
        digest=plain.digest,
        status=RunStatus.waiting,
        start_at_ms=start_at_ms,
    )


async def test_a_sleep_of_hours_is_nobodys_orphan_and_ends_once(timed: ValkeyStore, clock: ManualClock) -> None:
    # elsewhere a message that was out for longer than a visibility timeout came again, each time
    claim = await claimed(timed)
    due_ms = clock.wall_ms() + 6 * HOUR_MS
    await timed.commit(appending(claim.token, 0, b"sleep", ending=waiting(due_ms, seen=None)))
    for _ in range(6 * 60):
        assert (await timed.wake_due(DUE, 100)).woken == 0
        assert (await timed.reclaim_lapsed(RunStatus.queued, TTL_MS, 100)).run_ids == ()
        assert await timed.claim(request()) == ()
        clock.move(60_000)
    assert (await timed.wake_due(DUE, 100)).woken == 1
    assert (await timed.wake_due(DUE, 100)).woken == 0
    (again,) = await timed.claim(request())
    assert (again.token.run_id, again.token.fence) == (claim.token.run_id, 2)


async def test_a_submit_answered_while_the_primary_changes_is_answered_alike_by_the_next(opened: Opened) -> None:
    (port,) = free_ports(1)
    primary = Server(*SURE, "--repl-diskless-sync-delay", "0", port=port)
    replica = Server(*SURE, "--replicaof", f"127.0.0.1 {port}")
    road = Proxy(primary.socket)
    await road.open()
    try:
        store = await opened(road.address())
        run = new_run(key="order 7")
        road.plan(Fault(call="submit", deed=Deed.lose))
        with pytest.raises(StoreUnavailable):
            await store.submit(run)
        await asyncio.to_thread(primary.replicated)
        await asyncio.to_thread(primary.kill)
        replica.ask("REPLICAOF", "NO", "ONE")
        road.lead_to(replica.socket)
        retry = new_run(key="order 7")
        answer = await store.submit(retry)
        assert (answer.run_id, answer.submission) == (run.run_id, Submission.existing)
        await store.close()
    finally:
        await road.close()
        replica.stop()
        primary.stop()


async def test_of_two_endings_that_race_one_stands(opened: Opened, address: Address) -> None:
    one, other = await opened(address), await opened(address)
    for _ in range(20):
        claim = await claimed(one)
        told = await asyncio.gather(
            one.commit(appending(claim.token, 0, b"a", ending=COMPLETED)),
            other.commit(appending(claim.token, 0, b"b", ending=FAILED)),
        )
        assert sorted(answer.append.value for answer in told) == ["done", "fenced"]
        won = RunStatus.completed if told[0].append is Append.done else RunStatus.failed
        assert await status_of(one, claim.token.run_id) is won
    assert audit(address) == []


async def test_a_key_outlives_its_run_and_never_stays_stuck(timed: ValkeyStore, clock: ManualClock) -> None:
    first = new_run(key="k")
    await timed.submit(first)
    (claim,) = await timed.claim(request())
    await timed.commit(appending(claim.token, 0, ending=COMPLETED))
    clock.move(HOUR_MS)
    assert await timed.drop_finished(frozenset({RunStatus.completed}), 1, 10) == 1
    assert await timed.read(first.run_id) is None
    assert (await timed.submit(new_run(key="k"))).run_id == first.run_id
    clock.move(DAY_MS)
    again = new_run(key="k")
    assert (await timed.submit(again)).submission is Submission.created
    assert (await timed.submit(new_run(key="k"))).run_id == again.run_id


async def test_a_run_is_in_no_list_that_could_outlive_it(timed: ValkeyStore) -> None:
    # elsewhere an entry that was deleted while it was pending came back empty, and its consumer died of it
    claim = await claimed(timed)
    await timed.deliver(message(claim.token.run_id), DELIVERY)
    await timed.commit(appending(claim.token, 0, b"a", ending=COMPLETED))
    assert await timed.claim(request()) == ()
    assert await timed.holdings("w-1") == ()
    assert (await timed.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == ()
    assert (await timed.wake_due(DUE, 10)).woken == 0


async def test_a_demoted_primary_is_left_after_one_answer(opened: Opened, server: Server) -> None:
    # a client that asks the same node again and again keeps a cluster from settling
    road = Proxy(server.socket)
    await road.open()
    store = await opened(road.address(os.urandom(6).hex()))
    server.ask("REPLICAOF", "127.0.0.1", "1")
    connected, asked = road.events["connected"], road.events["submit"]
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="replica"):
            await store.submit(new_run())
    assert (road.events["connected"] - connected, road.events["submit"] - asked) == (2, 3)
    server.ask("REPLICAOF", "NO", "ONE")

    async def is_back() -> bool:
        try:
            return bool((await store.submit(new_run())).run_id)
        except StoreUnavailable:
            return False

    await until(is_back)
    await store.close()
    await road.close()
