"""How long anybody waits: every call has a deadline, and a long quiet is no reason to give anything up."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import DELIVERY, DUE, TERMINAL, RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import TTL_MS, appending, message, new_run, request, worker
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.proxy import Deed, Fault, Proxy

Opened = Callable[..., Awaitable[ValkeyStore]]
# the connection takes longer than anybody waits for an answer
HASTY = replace(QUICK, answer_s=0.3, ping_s=0.3, close_s=0.3, connect_s=20.0)
LIMIT_S = 10.0  # only a failing test waits so long
TOKEN = Token(run_id="01", fence=1, nonce="n")
SCHEDULE = p.ScheduleRecord(schedule_id="s", rev=0, record=b"{}", next_ms=None)
CALLS: dict[str, Callable[[ValkeyStore], Awaitable[Any]]] = {
    "submit": lambda store: store.submit(new_run()),
    "claim": lambda store: store.claim(request()),
    "renew": lambda store: store.renew([TOKEN], TTL_MS),
    "commit": lambda store: store.commit(appending(TOKEN, 0, b"a")),
    "release": lambda store: store.release(p.Release(token=TOKEN, status=RunStatus.queued, ready=True)),
    "amend": lambda store: store.amend(p.Amendment(run_id="01", rev=1)),
    "deliver": lambda store: store.deliver(message("01"), DELIVERY),
    "read_inbox": lambda store: store.read_inbox("01", 0),
    "wake_due": lambda store: store.wake_due(DUE, 10),
    "reclaim_lapsed": lambda store: store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10),
    "holdings": lambda store: store.holdings("w-1"),
    "read": lambda store: store.read("01"),
    "read_journal": lambda store: store.read_journal("01", 0),
    "find": lambda store: store.find(p.RunQuery()),
    "read_facts": lambda store: store.read_facts("01", 0, 10),
    "counts": lambda store: store.counts(),
    "suspects": lambda store: store.suspects(),
    "beat": lambda store: store.beat(worker("w-1"), 1000),
    "retire": lambda store: store.retire("w-1"),
    "workers": lambda store: store.workers(),
    "put_schedule": lambda store: store.put_schedule(SCHEDULE),
    "schedules": lambda store: store.schedules(),
    "fire": lambda store: store.fire(p.Firing(schedule_id="s", rev=0, record=b"{}", next_ms=None)),
    "drop_schedule": lambda store: store.drop_schedule("s"),
    "subscribe": lambda store: store.subscribe("order", None, frozenset({"paid"})),
    "emit": lambda store: store.emit(p.Event(event_id="e", name="paid", body=b"{}")),
    "events_pending": lambda store: store.events_pending(None, 10),
    "settle_event": lambda store: store.settle_event("e", "order", None),
    "leases": lambda store: store.leases(),
    "purge": lambda store: store.purge(10),
    "drop_finished": lambda store: store.drop_finished(TERMINAL, 1000, 10),
    "census": lambda store: store.census(p.EVERY_STATUS),
    "ping": lambda store: store.ping(),
}
WITHOUT_AN_ANSWER = {
    "url",
    "identity",
    "open",
    "close",
    "listen",
    "tell_tenure",
    "shards",
    "new_run_id",
    "former_run_ids",
}
# with one shard there is nothing to ask for; with several they are a script in the first, like any
WITHOUT_SHARDS = {"lease", "give_up_leases", "carry"}


def verbs() -> Iterator[str]:
    return (
        name for name in vars(p.Store) if not name.startswith("_") and name not in WITHOUT_AN_ANSWER | WITHOUT_SHARDS
    )


async def all_hear_that_it_is_away(store: ValkeyStore) -> None:
    async def told(name: str) -> str:
        try:
            await CALLS[name](store)
        except StoreUnavailable:
            return "away"
        return "answered"

    async with asyncio.timeout(LIMIT_S):
        said = await asyncio.gather(*map(told, CALLS))
    assert dict(zip(CALLS, said, strict=True)) == dict.fromkeys(CALLS, "away")


def test_every_verb_is_asked_here() -> None:
    assert set(verbs()) == CALLS.keys()


async def test_every_call_has_a_deadline(opened: Opened, road: Proxy) -> None:
    store = await opened(road.address(os.urandom(6).hex()), HASTY)
    road.block()
    await all_hear_that_it_is_away(store)  # the connection stands, and nothing comes of it
    await all_hear_that_it_is_away(store)  # whoever connects anew is let in, and told nothing
    road.refuse()
    await all_hear_that_it_is_away(store)  # nobody is there
    road.clear()
    await road.open()

    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                assert (await store.submit(new_run())).run_id
            except StoreUnavailable:
                continue  # the connection that was begun before is waited for, and found to lead nowhere
            return


async def test_nobody_waits_long_for_a_store_to_open_or_close(opened: Opened, road: Proxy) -> None:
    store = ValkeyStore(road.address(), None, HASTY)
    await store.open()
    road.block()
    under_way = asyncio.ensure_future(store.read("01"))
    await asyncio.sleep(0)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await ValkeyStore(road.address(), None, replace(HASTY, connect_s=0.2)).open()
        await store.close()
        with pytest.raises(StoreUnavailable):
            await under_way


async def test_a_quiet_longer_than_any_patience_ends_no_connection(opened: Opened, road: Proxy) -> None:
    # clients with a default timeout of their own broke at this when they were updated
    store = await opened(road.address(os.urandom(6).hex()), replace(HASTY, answer_s=0.5, knock_s=0.6))
    listening = store.listen(lambda wake: None)
    await listening.is_heard.wait()
    connected = road.events["connected"]
    await road.next("PING")  # after a knock's period in which nothing came or went
    assert (await store.submit(new_run())).run_id
    assert listening.is_heard.is_set()
    assert road.events["connected"] == connected
    listening.close()


async def test_who_leaves_gets_nobody_elses_answer(opened: Opened, road: Proxy) -> None:
    store = await opened(road.address(os.urandom(6).hex()))
    runs = [new_run() for _ in range(20)]
    for run in runs:
        await store.submit(run)
    for at in range(0, 20, 2):
        road.plan(Fault(call="read", deed=Deed.hold))
        leaver = asyncio.ensure_future(store.read(runs[at].run_id))
        await road.next("read held")  # it has been sent, and the answer is on its way back
        leaver.cancel()
        staying = asyncio.ensure_future(store.read(runs[at + 1].run_id))
        await road.next("read")
        road.let_go()
        record = await staying
        assert record is not None
        assert record.run_id == runs[at + 1].run_id
        assert leaver.cancelled()
