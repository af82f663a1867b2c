"""A cluster: the keys of a store stay together, and whoever has them is found again after any move."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable
from pyrula_runtime.stores.protocol import Append, Wake
from pyrula_runtime.stores.valkey.address import parse
from pyrula_runtime.stores.valkey.route import slot_of
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import appending, claimed, journal_of, new_run, request, until
from tests.store.valkey.audit import audit
from tests.store.valkey.away import persists
from tests.store.valkey.servers import Cluster, shared_cluster

pytestmark = pytest.mark.xdist_group("cluster")
Opened = Callable[..., Awaitable[ValkeyStore]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster that this test alone uses, to be broken."""
    cluster = Cluster()
    yield cluster
    cluster.stop()


@pytest.fixture
async def store(cluster: Cluster, opened: Opened) -> ValkeyStore:
    return await opened(cluster.address("n"))


async def heard(wakes: list[Wake]) -> bool:
    return Wake.ready in wakes


def test_the_slot_of_a_tag_is_the_servers_own_opinion() -> None:
    server = shared_cluster().servers[0]
    for tag in ("py:{default:0}:", "py:{a.b-c:63}:", "py:{n:0}:"):
        assert slot_of(tag) == server.ask("CLUSTER", "KEYSLOT", f"{tag}r:1")


async def test_a_cluster_is_refused_if_any_of_its_servers_would_drop_runs() -> None:
    cluster = shared_cluster()
    url = cluster.url("n")
    other = next(server for server in cluster.servers[:3] if server is not cluster.owner("n"))
    other.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(StoreRefused, match=f"{other.port} would delete runs"):
            await ValkeyStore(url).open()
    finally:
        other.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


async def test_any_node_leads_to_the_owner(opened: Opened) -> None:
    cluster = shared_cluster()
    run = new_run()
    for number, server in enumerate(cluster.servers):
        store = await opened(parse(f"valkey://127.0.0.1:{server.port}?namespace=any"))
        await store.submit(run)
        assert sum((await store.counts()).values()) == 1, number


async def test_a_cluster_has_no_databases() -> None:
    with pytest.raises(StoreRefused, match="has no database 1"):
        await ValkeyStore(f"valkey://127.0.0.1:{shared_cluster().servers[0].port}/1").open()


async def test_a_killed_primary_is_replaced_and_work_goes_on(store: ValkeyStore, cluster: Cluster) -> None:
    claim = await claimed(store)
    for at in range(20):
        assert (await store.commit(appending(claim.token, at, b"%d" % at))).append is Append.done
    wakes: list[Wake] = []
    listening = store.listen(wakes.append)
    await listening.is_heard.wait()
    owner = cluster.owner("n")
    assert owner.ask("WAIT", 1, 5000) == 1
    owner.kill()
    wakes.clear()
    with pytest.raises(StoreUnavailable):
        await store.commit(appending(claim.token, 20, b"20"))

    async def goes_on() -> Append:
        return (await store.commit(appending(claim.token, 20, b"20"))).append

    assert await persists(goes_on) in (Append.done, Append.duplicate)
    assert await journal_of(store, claim.token.run_id) == [b"%d" % at for at in range(21)]
    # whoever listens hears again, and has been woken for what it may have missed
    await asyncio.wait_for(listening.is_heard.wait(), 10)
    assert set(wakes) == set(Wake)
    wakes.clear()
    assert await store.claim(request()) == ()
    await store.submit(new_run())
    await until(lambda: heard(wakes))
    listening.close()
    assert (
        audit(cluster.servers[3].address("n") if owner is cluster.servers[0] else cluster.address("n"), in_cluster=True)
        == []
    )


async def test_a_slot_that_moves_takes_its_store_along(store: ValkeyStore, cluster: Cluster) -> None:
    claim = await claimed(store)
    await store.commit(appending(claim.token, 0, b"before"))
    wakes: list[Wake] = []
    listening = store.listen(wakes.append, frozenset({Wake.ready}))
    await listening.is_heard.wait()
    target = await asyncio.to_thread(cluster.move, "n")
    assert cluster.owner("n") is target

    async def goes_on() -> Append:
        return (await store.commit(appending(claim.token, 1, b"after"))).append

    assert await persists(goes_on) in (Append.done, Append.duplicate)
    assert await journal_of(store, claim.token.run_id) == [b"before", b"after"]
    assert await store.claim(request()) == ()
    wakes.clear()
    await store.submit(new_run())
    await until(lambda: heard(wakes))
    listening.close()
    assert audit(cluster.address("n"), in_cluster=True) == []


async def test_commits_during_a_move_are_written_once(store: ValkeyStore, cluster: Cluster) -> None:
    claim = await claimed(store)
    moved = asyncio.ensure_future(asyncio.to_thread(cluster.move, "n"))
    written = 0
    while not moved.done() or written < 50:

        async def write(at: int = written) -> Append:
            return (await store.commit(appending(claim.token, at, b"%d" % at))).append

        assert await persists(write) in (Append.done, Append.duplicate)
        written += 1
    await moved
    assert await journal_of(store, claim.token.run_id) == [b"%d" % at for at in range(written)]
    assert audit(cluster.address("n"), in_cluster=True) == []
