"""Several shards: a run is found where its id says, a changed number loses nothing, and silence is that of a server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreUnavailable, UsageError
from pyrula_runtime.core.status import CANCELLATION, DELIVERY, DUE, Moves, RunStatus
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import (
    Append,
    CancelRun,
    DeliverTo,
    Delivery,
    Effect,
    Event,
    LeaseRequest,
    NewRun,
    RunQuery,
    RunRecord,
    Serves,
    Submission,
    SubmitRun,
    Wake,
    Woken,
)
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import Argument
from pyrula_runtime.stores.valkey.places import shard_of_key, shard_of_run
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.shard import Shard
from pyrula_runtime.stores.valkey.store import ValkeyStore
from pyrula_runtime.stores.valkey.wakes import Listener
from tests.store.samples import COMPLETED, DAY_MS, TTL_MS, appending, message, new_run, request, until, worker
from tests.store.valkey.audit import audit
from tests.store.valkey.servers import shared

Opened = Callable[[int | None], Awaitable[ValkeyStore]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def address() -> Address:
    return shared("valkey").address(os.urandom(6).hex())


@pytest.fixture
async def opened(address: Address, clock: ManualClock) -> AsyncIterator[Opened]:
    """Opens handles with so many shards; the store is sound at the end."""
    async with AsyncExitStack() as stack:

        async def open_one(shards: int | None) -> ValkeyStore:
            store = ValkeyStore(address, clock, Settings(guarded=True), shard_count=shards)
            await store.open()
            stack.push_async_callback(store.close)
            return store

        yield open_one
    assert audit(address, shards=16) == []


def made_by(store: ValkeyStore, key: str | None = None, workflow: str = "order") -> NewRun:
    """A run with an id that the store makes."""
    return new_run(workflow, run=store.new_run_id(1_700_000_000_000, os.urandom(10), key), key=key)


def in_shard(store: ValkeyStore, number: int) -> NewRun:
    while True:
        run = made_by(store)
        if shard_of_run(run.run_id) == number:
            return run


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
        await store.beat(worker("w-2"), 60_000)
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
    clock.move(TTL_MS // 2)
    await store.beat(worker("w-2"), 60_000)
    clock.move(TTL_MS // 2 + 1)
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


async def until_read(store: ValkeyStore, run_id: str, condition: Callable[[RunRecord], bool]) -> None:
    async def is_so() -> bool:
        record = await store.read(run_id)
        return record is not None and condition(record)

    await until(is_so)


async def test_what_a_commit_does_to_runs_of_other_shards_is_carried_there(opened: Opened) -> None:
    store = await opened(8)
    told, struck, child = in_shard(store, 1), in_shard(store, 2), in_shard(store, 3)
    for run in (told, struck):
        await store.submit(run)
    parent = in_shard(store, 0)
    await store.submit(parent)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    effects = (
        DeliverTo(message=message(told.run_id, "a"), moves=DELIVERY),
        DeliverTo(message=message(told.run_id, "b"), moves=DELIVERY),
        CancelRun(run_id=struck.run_id, moves=CANCELLATION),
        SubmitRun(run=child),
    )
    wanted = replace(appending(claims[parent.run_id].token, 0, b"x"), effects=effects)
    assert (await store.commit(wanted)).append is Append.done
    await until_read(store, told.run_id, lambda record: record.inbox_len == 2)
    await until_read(store, struck.run_id, lambda record: record.cancel_requested)
    await until_read(store, child.run_id, lambda record: record.status is RunStatus.queued)
    assert [received.message_id for received in await store.read_inbox(told.run_id, 0)] == ["a", "b"]
    # an answer that was lost: told again, nothing is done twice
    assert (await store.commit(wanted)).append is Append.duplicate
    await store.holdings("somebody")
    assert await store.carry(99) == 0
    assert len(await store.read_inbox(told.run_id, 0)) == 2


async def test_more_effects_than_are_carried_at_once_are_all_carried(opened: Opened) -> None:
    # of one write, and of many that are answered together
    store = await opened(8)
    (parent, told), total = (in_shard(store, 0), in_shard(store, 1)), 150
    await store.submit(told)
    for run in (parent, *(in_shard(store, 0) for _ in range(total))):
        await store.submit(run)
    claims = await store.claim(request(limit=total + 1))

    def saying(*names: str) -> tuple[DeliverTo, ...]:
        return tuple(DeliverTo(message=message(told.run_id, name), moves=DELIVERY) for name in names)

    first, *others = [claim.token for claim in claims if claim.token.run_id != told.run_id]
    many = saying(*(f"of one {number}" for number in range(total)))
    await store.commit(replace(appending(first, 0, b"x"), effects=many))
    await until_read(store, told.run_id, lambda record: record.inbox_len == total)
    one_each = [replace(appending(token, 0, b"x"), effects=saying(token.run_id)) for token in others]
    await asyncio.gather(*map(store.commit, one_each))
    await until_read(store, told.run_id, lambda record: record.inbox_len == total + len(others))


async def test_effects_whose_writer_died_are_carried_by_whoever_looks(opened: Opened) -> None:
    store, other = await opened(8), await opened(8)
    run, child = in_shard(store, 4), in_shard(store, 5)
    await store.submit(run)
    (claim,) = await store.claim(request())
    wanted = replace(appending(claim.token, 0, b"x"), effects=(SubmitRun(run=child),))
    assert (await store.shard(4).commit(wanted)).append is Append.done  # and nobody carries
    assert await other.read(child.run_id) is None
    assert await other.carry(99) == 0  # nothing was seen yet
    await other.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
    assert await other.carry(99) == 1
    assert await other.read(child.run_id) is not None
    assert await other.carry(99) == 0


async def test_an_effect_that_cannot_be_carried_keeps_those_of_other_shards_from_nothing(
    opened: Opened, address: Address
) -> None:
    store = await opened(8)
    blocked, child, senders = in_shard(store, 6), in_shard(store, 7), [in_shard(store, 2), in_shard(store, 3)]
    for run in (blocked, *senders):
        await store.submit(run)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    obstacle = f"{store.tag(6)}ms:{blocked.run_id}"
    shared("valkey").ask("SET", obstacle, "not a set")
    effects: list[Effect] = [DeliverTo(message=message(blocked.run_id), moves=DELIVERY), SubmitRun(run=child)]
    for run, effect in zip(senders, effects, strict=True):
        wanted = replace(appending(claims[run.run_id].token, 0, b"x"), effects=(effect,))
        await store.shard(shard_of_run(run.run_id)).commit(wanted)  # and nobody carries
    await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
    assert await store.carry(99) == 1
    assert await store.read(child.run_id) is not None
    with pytest.raises(StoreUnavailable):
        await store.carry(99)
    shared("valkey").ask("DEL", obstacle)
    assert await store.carry(99) == 1


async def test_what_could_not_be_carried_is_tried_again_by_whoever_wrote_it(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a node that fails over is away for seconds, and the next scan may be a minute off
    store = ValkeyStore(address, None, Settings(guarded=True, carry_s=0.01), shard_count=8)
    await store.open()
    told, sender = in_shard(store, 6), in_shard(store, 2)
    for run in (told, sender):
        await store.submit(run)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    carry_one, refused = store._carry_one, list[Sequence[Any]]()

    async def refuse(effect: Sequence[Any]) -> None:
        refused.append(effect)
        if len(refused) < 3:
            raise StoreUnavailable("the node of this shard is failing over")
        await carry_one(effect)

    monkeypatch.setattr(store, "_carry_one", refuse)
    effects = (DeliverTo(message=message(told.run_id), moves=DELIVERY),)
    await store.commit(replace(appending(claims[sender.run_id].token, 0, b"x"), effects=effects))
    await until_read(store, told.run_id, lambda record: record.inbox_len == 1)
    await store.close()
    assert audit(address, shards=8) == []


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


async def test_what_is_over_goes_from_all_shards_also_if_events_go_with_it(opened: Opened, clock: ManualClock) -> None:
    store = await opened(8)
    await store.subscribe("ship", None, frozenset({"order.created"}))
    for number in range(3):
        await store.submit(made_by(store, f"k{number}"))
        await store.emit(Event(event_id=f"e{number}", name="order.created", body=b"", ttl_ms=DAY_MS))
        await store.settle_event(f"e{number}", "ship", None)
    clock.move(DAY_MS)
    gone = 0
    while some := await store.purge(2):
        assert some <= 4
        gone += some
    assert gone == 6


async def test_keys_that_are_used_again_are_looked_through_in_small_pages(
    opened: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(None)
    for _ in range(2):
        for number in range(10):
            await store.submit(made_by(store, f"k{number}"))
        clock.move(DAY_MS)
    shard, pages = store.shard(0), list[tuple[int, ...]]()
    run = shard._run

    def noting(name: str, *args: Argument, told: Callable[[Any], Any] = bool) -> asyncio.Future[Any]:
        def note(reply: Any) -> Any:
            pages.append(tuple(reply))
            return told(reply)

        return run(name, *args, told=note)

    monkeypatch.setattr(shard, "_run", noting)
    assert await store.purge(4) == 4
    assert pages == [(0, 0, 1), (0, 0, 1), (2, 0, 1), (2, 0, 1)]
