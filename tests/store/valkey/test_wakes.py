"""Wakes: told only to who waits, never missed, and heard again after any loss of connections."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores.protocol import Amendment, Release, Wake
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.store import ValkeyStore
from pyrula_runtime.stores.valkey.wakes import Listener
from tests.store.samples import COMPLETED, appending, claimed, new_run, request, until
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.servers import Server, shared

Opened = Callable[..., Awaitable[ValkeyStore]]


class Ear:
    """A listener that says when it was woken."""

    def __init__(self, store: ValkeyStore, *kinds: Wake) -> None:
        self.wakes: list[Wake] = []
        self._rung = asyncio.Event()
        self.listening: Listener = store.listen(self._on_wake, frozenset(kinds))

    def _on_wake(self, wake: Wake) -> None:
        self.wakes.append(wake)
        self._rung.set()

    async def ready(self) -> None:
        """Wait until the server knows of it, and forget the wake that this is."""
        await self.listening.is_heard.wait()
        self.forget()

    def forget(self) -> None:
        self.wakes.clear()
        self._rung.clear()

    async def rings(self) -> None:
        await asyncio.wait_for(self._rung.wait(), 10)


def published(server: Server) -> int:
    info = server.ask("INFO", "commandstats")
    assert isinstance(info, bytes)
    calls = info.partition(b"cmdstat_publish:calls=")[2].partition(b",")[0]
    return int(calls or 0)


async def test_nothing_is_published_while_nobody_waits(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    before = published(server)
    for _ in range(50):
        await store.submit(new_run())
    assert published(server) == before
    while await store.claim(request(limit=20)):
        continue
    for _ in range(50):
        await store.submit(new_run())
    assert published(server) == before + 1  # the last claim came back short; one message is enough


async def test_each_kind_is_told_by_what_causes_it(opened: Opened, address: Address) -> None:
    store, other = await opened(address), await opened(address)
    ear = Ear(other, *Wake)
    await ear.ready()
    claim = await claimed(store)
    await ear.rings()
    assert set(ear.wakes) == {Wake.ready}
    ear.forget()
    assert await store.amend(Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True))
    await ear.rings()
    assert Wake.attention in ear.wakes
    await store.commit(appending(claim.token, 0, ending=COMPLETED))
    while Wake.ended not in ear.wakes:
        ear.forget()
        await ear.rings()
    ear.listening.close()


async def test_who_does_not_claim_after_a_wake_is_woken_by_the_next_run_too(opened: Opened, address: Address) -> None:
    store, other = await opened(address), await opened(address)
    ear = Ear(other, Wake.ready)
    await ear.ready()
    for _ in range(5):
        await store.submit(new_run())
        await ear.rings()
        ear.forget()
    ear.listening.close()


async def test_a_worker_is_not_woken_for_work_of_others(opened: Opened, address: Address) -> None:
    store, mine = await opened(address), await opened(address)
    ear = Ear(mine, Wake.ready, Wake.attention)
    await ear.ready()
    assert await mine.claim(request(("mine", "1"))) == ()
    others = await claimed(store, "another", workflow="others")
    assert await store.amend(Amendment(run_id=others.token.run_id, rev=2, cancel_requested=True))
    await store.submit(new_run("mine", "1"))
    await ear.rings()
    assert ear.wakes == [Wake.ready]
    ear.listening.close()


async def test_no_run_is_missed_though_subscriptions_die_all_the_time(opened: Opened, server: Server) -> None:
    # workers that only sleep until they are woken, while every subscription is killed again and again
    submitter = await opened(server.address())
    total, taken = 400, 0
    done = asyncio.Event()
    nudges = [asyncio.Event() for _ in range(4)]

    async def work(number: int, nudge: asyncio.Event) -> None:
        nonlocal taken
        store = await opened(server.address())
        listening = store.listen(lambda wake: nudge.set(), frozenset({Wake.ready}))
        while not done.is_set():
            nudge.clear()
            while claims := await store.claim(request(limit=3, incarnation=f"w-{number}")):
                taken += len(claims)
            if taken == total:
                done.set()
                for sleeper in nudges:
                    sleeper.set()
            await nudge.wait()
        listening.close()

    async def kill() -> None:
        while not done.is_set():
            await asyncio.to_thread(server.ask, "CLIENT", "KILL", "TYPE", "pubsub")
            await asyncio.sleep(0.03)

    workers = [asyncio.ensure_future(work(*each)) for each in enumerate(nudges)]
    killer = asyncio.ensure_future(kill())
    for _ in range(total):
        await submitter.submit(new_run())
    await asyncio.wait_for(done.wait(), 30)
    await asyncio.gather(killer, *workers)


async def test_a_server_that_was_away_is_heard_again(opened: Opened, server: Server) -> None:
    store = await opened(server.address())
    ear = Ear(store, Wake.ready)
    await ear.ready()
    server.kill()
    server.start()
    await ear.ready()
    other = await opened(server.address())
    await other.submit(new_run())
    await ear.rings()
    ear.listening.close()


async def test_a_dead_subscription_that_looks_quiet_is_noticed(opened: Opened, address: Address) -> None:
    # a black hole: nothing comes any more, and nothing says so
    store = await opened(address)
    ear = Ear(store, Wake.ready)
    await ear.ready()
    shared("valkey").ask("CLIENT", "PAUSE", 700, "ALL")
    await ear.rings()  # by the connection made anew
    ear.listening.close()


async def test_a_release_wakes_as_a_submit_does(opened: Opened, address: Address) -> None:
    store, other = await opened(address), await opened(address)
    claim = await claimed(store)
    ear = Ear(other, Wake.ready)
    await ear.ready()
    assert await other.claim(request(incarnation="w-2")) == ()
    await store.release(Release(token=claim.token, status=RunStatus.queued, ready=True))
    await ear.rings()
    ear.listening.close()


async def test_a_ping_is_heard_by_all_who_listen_and_wakes_nobody(opened: Opened, server: Server) -> None:
    # so a subscription knows that it stands, and need not ask
    store, other = await opened(server.address()), await opened(server.address(), replace(QUICK, knock_s=60.0))
    await store.claim(request())
    ear = Ear(other, Wake.attention)
    await ear.ready()
    (subscription,) = ear.listening._subscriptions.values()
    before_s = subscription._heard_s

    async def has_heard() -> bool:
        await store.ping()  # of the pings of one second one is told
        return subscription._heard_s > before_s

    await until(has_heard)
    assert ear.wakes == []
    ear.listening.close()
