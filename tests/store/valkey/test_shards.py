"""Several shards: a run is found where its id says, a changed number loses nothing, and silence is that of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.status import DELIVERY, DUE, Moves, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Delivery, LeaseRequest, RunQuery, Serves, Submission, Wake, Woken
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.places import shard_of_key, shard_of_run
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.shard import Shard
from pyrula_runtime.stores.valkey.store import ValkeyStore
from pyrula_runtime.stores.valkey.wakes import Listener
from tests.store.samples import (
    COMPLETED,
    DAY_MS,
    TTL_MS,
    alive_for,
    appending,
    message,
    new_run,
    request,
    sign_of_life,
    until,
    worker,
)
from tests.store.valkey.servers import shared
from tests.store.valkey.sharded import Opened, handles, in_shard, made_by


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(address: Address, clock: ManualClock) -> AsyncIterator[Opened]:
    """Opens handles with so many shards; the store is sound at the end."""
    async with handles(address, clock) as open_one:
        yield open_one


async def taken(store: ValkeyStore, limit: int = 99) -> set[str]:
    return {claim.token.run_id for claim in await store.claim(request(limit=limit))}


async def test_runs_are_spread_and_all_are_found(opened: Opened) -> None:
    store, other = await opened(8), await opened(None)
    runs = [made_by(store) for _ in range(64)]
    for run in runs:
        assert (await store.submit(run)).submission is Submission.created
    ids = {run.run_id for run in runs}
    assert {shard_of_run(run_id) for run_id in ids} == set(range(8))
    assert other.shards == 8
    found = await other.find(RunQuery(limit=100))
    assert [record.run_id for record in found] == sorted(ids, reverse=True)
    page = await other.find(RunQuery(limit=10, before=found[9].run_id))
    assert list(page) == list(found[10:20])
    assert sum((await other.counts()).values()) == 64
    assert await taken(other) == ids


async def test_a_claim_never_brings_more_than_its_limit_and_goes_round(opened: Opened) -> None:
    store = await opened(4)
    for _ in range(40):
        await store.submit(made_by(store))
    brought = [await store.claim(request(limit=3)) for _ in range(14)]
    assert [len(claims) for claims in brought] == [3] * 13 + [1]
    first = {shard_of_run(claim.token.run_id) for claims in brought[:4] for claim in claims}
    assert first == set(range(4))


async def test_an_id_without_a_number_lives_in_the_first_shard(opened: Opened) -> None:
    store = await opened(8)
    for run_id in ("order-17", "a", new_run().run_id):
        assert shard_of_run(run_id) == 0
        await store.submit(new_run(run=run_id))
        assert await store.deliver(message(run_id), DELIVERY) is Delivery.delivered
    with pytest.raises(UsageError, match="names shard 4095, of 8"):
        await store.submit(new_run(run=f"{new_run().run_id}-fff"))


async def test_one_shard_makes_ids_as_ever(opened: Opened) -> None:
    store = await opened(None)
    assert store.shards == 1
    assert len(made_by(store).run_id) == 26


async def test_a_key_leads_to_its_shard_and_answers_there(opened: Opened) -> None:
    store = await opened(8)
    first, again = made_by(store, "k"), made_by(store, "k")
    assert shard_of_run(first.run_id) == shard_of_run(again.run_id) == shard_of_key("k", 8)
    assert (await store.submit(first)).submission is Submission.created
    told = await store.submit(again)
    assert (told.run_id, told.submission) == (first.run_id, Submission.existing)
    assert (await store.submit(replace(again, digest="other"))).submission is Submission.conflict


async def test_a_key_answers_for_a_run_whose_id_was_chosen(opened: Opened) -> None:
    store = await opened(8)
    chosen = new_run(run="chosen", key="k")
    assert shard_of_key("k", 8) != 0
    assert (await store.submit(chosen)).submission is Submission.created
    assert (await store.submit(chosen)).submission is Submission.existing
    told = await store.submit(made_by(store, "k"))
    assert (told.run_id, told.submission) == ("chosen", Submission.existing)
    assert (await store.submit(new_run(run="chosen", key="other"))).submission is Submission.existing
    assert (await store.submit(made_by(store, "other"))).submission is Submission.created


async def test_a_run_whose_submitter_died_before_it_was_made_is_made_by_the_next(opened: Opened) -> None:
    store = await opened(8)
    chosen = new_run(run="chosen", key="k")
    assert await store.shard(shard_of_key("k", 8)).keep_key(chosen, 8) is None
    told = await store.submit(made_by(store, "k"))
    assert (told.run_id, told.submission) == ("chosen", Submission.created)
    assert await store.read("chosen") is not None


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 16), (8, 2)])
async def test_a_changed_number_of_shards_loses_nothing(opened: Opened, before: int, after: int) -> None:
    old = await opened(before)
    runs = [made_by(old, f"k{number}") for number in range(20)]
    for run in runs:
        await old.submit(run)
    new = await opened(after)
    assert new.shards == max(before, after)
    for number, run in enumerate(runs):
        told = await new.submit(made_by(new, f"k{number}"))
        assert (told.run_id, told.submission) == (run.run_id, Submission.existing)
    assert {record.run_id for record in await new.find(RunQuery(limit=99))} == {run.run_id for run in runs}
    assert {shard_of_run(made_by(new).run_id) for _ in range(200)} == set(range(after))
    assert await taken(new) == {run.run_id for run in runs}


async def test_who_knew_another_number_of_shards_keeps_no_key_by_it(opened: Opened) -> None:
    old = await opened(4)
    new = await opened(16)
    runs = [made_by(new, f"k{number}") for number in range(10)]
    for run in runs:
        await new.submit(run)
    for number, run in enumerate(runs):  # it hears that keys are kept elsewhere now
        told = await old.submit(made_by(old, f"k{number}"))
        assert (told.run_id, told.submission) == (run.run_id, Submission.existing)
    assert old.shards == 16
    assert await taken(old) == {run.run_id for run in runs}


async def test_a_number_of_shards_that_was_lost_by_a_failover_is_said_again_by_who_knows_it(
    opened: Opened, address: Address
) -> None:
    knows = await opened(16)
    run = in_shard(knows, 12)
    await knows.submit(run)
    for field in ("count", "most", "told"):
        shared("valkey").ask("HSET", f"{address.tag}s", field, 8)
    await knows.beat(worker("w-1"), 60_000)
    assert knows.shards == 16
    assert await taken(await opened(None)) == {run.run_id}


async def test_keys_are_kept_also_if_other_shards_know_of_a_number_that_was_lost(opened: Opened) -> None:
    store = await opened(8)
    for number in range(8):
        await store.shard(number).place(16)
    run = made_by(store, "k")
    told = await asyncio.wait_for(store.submit(run), 10)
    assert told.submission is Submission.created
    assert (await store.submit(made_by(store, "k"))).run_id == run.run_id


async def test_a_worker_hears_of_more_shards_with_its_beat(opened: Opened) -> None:
    old = await opened(1)
    await opened(4)
    assert old.shards == 1
    await old.beat(worker("w-1"), 60_000)
    assert old.shards == 4


async def test_keys_of_former_places_are_looked_up_for_as_long_as_they_live(opened: Opened, clock: ManualClock) -> None:
    old = await opened(2)
    first = made_by(old, "k")
    await old.submit(first)
    new = await opened(16)
    clock.move(DAY_MS - 1)
    assert (await new.submit(made_by(new, "k"))).run_id == first.run_id
    clock.move(1)
    assert (await new.submit(made_by(new, "k"))).submission is Submission.created


async def test_silence_of_one_shard_is_not_the_silence_of_the_server(opened: Opened, clock: ManualClock) -> None:
    # the only worker with a run in this shard dies with its host; others live, and nothing happens there
    store = await opened(8)
    run = in_shard(store, 5)
    await store.submit(run)
    assert await taken(store) == {run.run_id}
    for _ in range(4):
        clock.move(TTL_MS // 3)
        await sign_of_life(store)
    lapsed = await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
    assert (lapsed.run_ids, lapsed.grace) == ((run.run_id,), False)


async def test_after_a_silence_of_the_server_every_lock_in_every_shard_gets_one_more_life(
    opened: Opened, clock: ManualClock
) -> None:
    store = await opened(8)
    runs = [in_shard(store, number) for number in range(8)]
    for run in runs:
        await store.submit(run)
    claims = await store.claim(request(limit=8))
    assert len(claims) == 8
    clock.move(2 * TTL_MS)
    first = await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 99)
    assert (first.run_ids, first.grace) == ((), True)
    assert (await store.renew([claim.token for claim in claims], TTL_MS)).lost == frozenset()
    await alive_for(store, clock, TTL_MS + 1)
    second = await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 99)
    assert (set(second.run_ids), second.grace) == ({run.run_id for run in runs}, False)


async def test_no_run_is_missed_by_workers_that_lease_shards_and_sleep(address: Address) -> None:
    # nobody looks without a wake: each run has to ring for a worker that leases its shard, whoever leases it then
    total, found = 300, set[str]()
    done = asyncio.Event()
    nudges = [asyncio.Event() for _ in range(3)]
    stores = [ValkeyStore(address, None, Settings(guarded=True, gather_s=0.02), shard_count=8) for _ in nudges]

    async def work(number: int, store: ValkeyStore, nudge: asyncio.Event) -> None:
        await store.open()
        listening = store.listen(lambda wake: nudge.set(), frozenset({Wake.ready, Wake.lease}))
        asked = LeaseRequest(incarnation=f"w-{number}", serves=(Serves(workflow="order", version="1"),), ttl_ms=TTL_MS)
        while not done.is_set():
            nudge.clear()
            await store.lease(asked)
            while claims := await store.claim(request(limit=3, incarnation=f"w-{number}")):
                found.update(claim.token.run_id for claim in claims)
            if len(found) == total:
                done.set()
                for sleeper in nudges:
                    sleeper.set()
            await nudge.wait()
        listening.close()

    workers = [
        asyncio.ensure_future(work(number, *each)) for number, each in enumerate(zip(stores, nudges, strict=True))
    ]
    client = ValkeyStore(address, None, Settings(guarded=True), shard_count=8)
    await client.open()
    for _ in range(total):
        await client.submit(made_by(client))
    await asyncio.wait_for(done.wait(), 30)
    await asyncio.gather(*workers)
    for store in (*stores, client):
        await store.close()


async def test_a_turn_is_followed_out_of_its_own_shard_and_now_and_then_out_of_another(opened: Opened) -> None:
    store = await opened(2)
    for _ in range(12):
        await store.submit(in_shard(store, 0))
        await store.submit(in_shard(store, 1))
    (claim,) = await store.claim(request(limit=1))
    shards, turns = {shard_of_run(claim.token.run_id)}, 0
    while True:
        ended = await store.commit(appending(claim.token, 0, ending=COMPLETED, claim=request(limit=1)))
        claims = ended.claims or await store.claim(request(limit=1))
        turns += 1
        if not claims:
            break
        (claim,) = claims
        shards.add(shard_of_run(claim.token.run_id))
    assert turns == 24
    assert shards == {0, 1}


async def heard(store: ValkeyStore, *kinds: Wake) -> Listener:
    listening = store.listen(lambda wake: None, frozenset(kinds))
    await listening.is_heard.wait()
    return listening


async def test_a_look_at_the_times_asks_only_where_something_is_due(
    opened: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = await opened(8), await opened(8)
    listening = await heard(store, Wake.timer)
    asked: list[int] = []
    for number in range(8):
        monkeypatch.setattr(store.shard(number), "wake_due", counted(store.shard(number), asked))
    assert (await store.wake_due(DUE, 10)).next_due_ms is None
    assert sorted(asked) == list(range(8))
    asked.clear()
    assert (await store.wake_due(DUE, 10)).woken == 0
    assert asked == []
    due_ms = clock.wall_ms() + 5_000
    later = replace(in_shard(other, 6), start_at_ms=due_ms, status=RunStatus.waiting)
    await other.submit(later)
    await until(lambda: has_asked(store, asked))
    assert asked == [6]
    asked.clear()
    told = await store.wake_due(DUE, 10)
    assert (told.woken, told.next_due_ms, asked) == (0, due_ms, [])
    clock.move(5_000)
    assert (await store.wake_due(DUE, 10)).woken == 1
    assert asked == [6]
    listening.close()
    await store.wake_due(DUE, 10)
    assert len(asked) == 9


async def test_a_backlog_in_one_shard_keeps_no_other_waiting(
    opened: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(4)
    start_ms = clock.wall_ms() + 1
    late = [in_shard(store, 0) for _ in range(350)] + [in_shard(store, number) for number in range(1, 4)]
    await asyncio.gather(*[store.submit(replace(run, start_at_ms=start_ms, status=RunStatus.waiting)) for run in late])
    clock.move(1)
    pages: list[int] = []
    for number in range(4):
        monkeypatch.setattr(store.shard(number), "wake_due", noted(store.shard(number), pages))
    woken = [await store.wake_due(DUE, 100) for _ in range(3)]
    assert all(each.next_due_ms is not None and each.next_due_ms <= each.now_ms for each in woken)
    others = await store.find(RunQuery(statuses=frozenset({RunStatus.waiting}), limit=1000))
    assert {shard_of_run(run.run_id) for run in others} <= {0}
    rest = await store.wake_due(DUE, 1000)
    assert sum(each.woken for each in woken) + rest.woken == len(late)
    assert max(pages) == 100


def noted(shard: Shard, pages: list[int]) -> Callable[[Moves, int], Awaitable[Woken]]:
    """The verb, noting how many were woken."""
    wake_due = shard.wake_due

    async def ask(moves: Moves, limit: int) -> Woken:
        told = await wake_due(moves, limit)
        pages.append(told.woken)
        return told

    return ask


def counted(shard: Shard, asked: list[int]) -> Callable[[Moves, int], asyncio.Future[Woken]]:
    """The verb, noting that it was asked."""
    wake_due = shard.wake_due

    def ask(moves: Moves, limit: int) -> asyncio.Future[Woken]:
        asked.append(shard.number)
        return wake_due(moves, limit)

    return ask


async def has_asked(store: ValkeyStore, asked: list[int]) -> bool:
    await store.wake_due(DUE, 10)
    return bool(asked)
