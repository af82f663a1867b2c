"""The inbox: messages are kept until the journal has them, given in order, and each of them once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Amendment, Append, Delivery, Store, Wake
from tests.store.listening import woken_by
from tests.store.samples import (
    COMPLETED,
    TTL_MS,
    appending,
    claimed,
    message,
    new_run,
    request,
    send,
    status_of,
    suspended,
    waiting,
)
from tests.store.sites import Site


async def test_a_message_sends_a_waiting_run_on(site: Site, store: Store) -> None:
    claim = await suspended(store)
    await woken_by(site, lambda: store.deliver(message(claim.token.run_id), DELIVERY), Wake.ready)
    (again,) = await store.claim(request())
    assert [(each.seq, each.name, each.body) for each in again.inbox] == [(1, "paid", b"{}")]
    assert again.inbox_len == 1


async def test_messages_are_numbered_in_order_of_arrival(store: Store) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "b", "c", "a")
    received = await store.read_inbox(claim.token.run_id, 0)
    assert [(each.seq, each.message_id) for each in received] == [(1, "b"), (2, "c"), (3, "a")]
    assert [each.seq for each in await store.read_inbox(claim.token.run_id, 2)] == [3]
    assert await store.read_inbox("none", 0) == ()


async def test_a_holder_hears_how_many_messages_came(site: Site, store: Store) -> None:
    claim = await claimed(store)
    other = await claimed(store)
    await woken_by(site, lambda: store.deliver(message(claim.token.run_id), DELIVERY), Wake.attention)
    renewed = await store.renew([claim.token, other.token], TTL_MS)
    assert renewed.inbox == {claim.token.run_id: 1}
    assert (await store.commit(appending(claim.token, 0, b"a"))).inbox_len == 1
    assert (await store.commit(appending(claim.token, 0, b"a"))).inbox_len == 1  # and with a repeated answer


async def test_a_consumed_message_is_not_given_again_after_a_crash(store: Store, clock: ManualClock) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "m1", "m2", "m3")
    await store.commit(replace(appending(claim.token, 0, b"took m2"), consumed=(2,)))
    for _ in range(4):
        clock.move(TTL_MS // 3)
        await store.renew([], TTL_MS)
    assert (await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)).run_ids == (claim.token.run_id,)
    (again,) = await store.claim(request())
    assert [each.message_id for each in again.inbox] == ["m1", "m3"]
    assert again.inbox_len == 3
    assert [each.seq for each in await store.read_inbox(claim.token.run_id, 1)] == [3]


async def test_a_consumed_message_is_still_known_by_its_id(store: Store) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "m")
    await store.commit(replace(appending(claim.token, 0, b"took m", ending=waiting(seen=1)), consumed=(1,)))
    assert await store.deliver(message(claim.token.run_id), DELIVERY) is Delivery.duplicate
    assert await status_of(store, claim.token.run_id) == RunStatus.waiting


async def test_a_commit_that_was_refused_consumes_nothing(store: Store) -> None:
    claim = await claimed(store)
    await send(store, claim.token.run_id, "m")
    refused = replace(appending(replace(claim.token, nonce="other"), 0, b"a"), consumed=(1,))
    assert (await store.commit(refused)).append is Append.fenced
    assert len(await store.read_inbox(claim.token.run_id, 0)) == 1


async def test_an_inbox_comes_in_pages(store: Store) -> None:
    claim = await suspended(store, seen=None)
    for number in range(3):
        await store.deliver(message(claim.token.run_id, f"m{number}", b"x" * 600_000), DELIVERY)
    resume = Amendment(run_id=claim.token.run_id, rev=3, status=RunStatus.queued, ready=True)
    assert await store.amend(resume)
    (again,) = await store.claim(request())
    assert (len(again.inbox), again.inbox_len) == (1, 3)
    assert [each.seq for each in await store.read_inbox(claim.token.run_id, 1)] == [2]


async def test_a_run_that_waits_for_time_alone_keeps_its_messages(store: Store, clock: ManualClock) -> None:
    claim = await suspended(store, due_ms=clock.wall_ms() + 5, seen=None)
    await send(store, claim.token.run_id, "m")
    assert await status_of(store, claim.token.run_id) == RunStatus.waiting


@pytest.mark.parametrize("waited", [False, True])
async def test_a_paused_run_keeps_its_messages(store: Store, *, waited: bool) -> None:
    run = new_run()
    if waited:
        await suspended(store, run=run)
    else:
        await store.submit(run)
    record = await store.read(run.run_id)
    assert record is not None
    assert await store.amend(Amendment(run_id=run.run_id, rev=record.rev, status=RunStatus.paused, ready=False))
    await send(store, run.run_id, "m")
    assert await status_of(store, run.run_id) == RunStatus.paused
    assert await store.claim(request()) == ()


async def test_an_ended_run_absorbs(store: Store) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
    assert await store.deliver(message(claim.token.run_id), DELIVERY) is Delivery.ended
