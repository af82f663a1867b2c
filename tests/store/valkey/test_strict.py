"""The strict profile: what was answered is on the disk, and on a replica if there is one."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest

from pyrula_runtime.core.errors import StoreRefused, StoreUnavailable
from pyrula_runtime.stores.protocol import Append
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.connection import connect
from pyrula_runtime.stores.valkey.route import Route
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import appending, claimed, journal_of, request, until
from tests.store.valkey.away import away, server_of
from tests.store.valkey.conftest import QUICK
from tests.store.valkey.servers import KEEPS, SURE, Cluster, Server, free_ports
from tests.store.valkey.sharded import in_shard

Opened = Callable[..., Awaitable[ValkeyStore]]


class Replicated:
    """A primary and a replica."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.primary = Server(*SURE, "--repl-diskless-sync-delay", "0", port=port)
        self.replica = Server(*SURE, "--replicaof", f"127.0.0.1 {port}")

    def meet(self) -> None:
        """Wait until the replica has what the primary has."""
        connection = connect(self.primary.address(), 15, "test")
        try:
            _, met = connection.ask([("SET", "sign", "1"), ("WAIT", 1, 10_000)])  # `WAIT` looks at its own connection
        finally:
            connection.socket.close()
        assert met == 1

    def stop(self) -> None:
        os.kill(self.replica.process.pid, signal.SIGCONT)
        self.replica.stop()
        self.primary.stop()


@pytest.fixture
def pair() -> Iterator[Replicated]:
    pair = Replicated()
    try:
        pair.meet()
        yield pair
    finally:
        pair.stop()


async def test_a_server_that_syncs_later_is_refused() -> None:
    server = Server(*KEEPS, "--appendfsync", "everysec")
    try:
        with pytest.raises(StoreRefused, match="set appendfsync always"):
            await ValkeyStore(f"{server.url()}&durability=strict").open()
    finally:
        server.stop()


async def test_without_a_replica_the_disk_is_enough(opened: Opened, server: Server) -> None:
    store = await opened(replace(server.address(), strict=True))
    assert (await store.commit(appending((await claimed(store)).token, 0, b"a"))).append is Append.done


async def test_what_no_replica_has_confirmed_is_not_answered(opened: Opened, pair: Replicated) -> None:
    strict = replace(pair.primary.address(), strict=True)
    claim = await claimed(await opened(strict))
    store = await opened(strict, replace(QUICK, confirm_ms=100))
    os.kill(pair.replica.process.pid, signal.SIGSTOP)
    with pytest.raises(StoreUnavailable, match="fewer than 1 replicas have confirmed that"):
        await store.commit(appending(claim.token, 0, b"a"))
    os.kill(pair.replica.process.pid, signal.SIGCONT)
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.duplicate
    assert (await store.commit(appending(claim.token, 1, b"b"))).append is Append.done


async def test_a_script_that_the_server_forgot_is_confirmed_too(opened: Opened, pair: Replicated) -> None:
    store = await opened(replace(pair.primary.address(), strict=True))
    claim = await claimed(store)
    pair.primary.ask("SCRIPT", "FLUSH")
    for at in range(3):
        assert (await store.commit(appending(claim.token, at, b"x"))).append is Append.done


async def test_a_failover_loses_nothing_that_was_answered(opened: Opened, pair: Replicated) -> None:
    store = await opened(replace(pair.primary.address(), strict=True))
    claim = await claimed(store)
    for at in range(200):
        assert (await store.commit(appending(claim.token, at, b"%d" % at))).append is Append.done
    pair.primary.kill()
    pair.replica.ask("REPLICAOF", "NO", "ONE")
    promoted = await opened(pair.replica.address())
    assert await journal_of(promoted, claim.token.run_id) == [b"%d" % at for at in range(200)]
    # the worker that held the run holds it still, and goes on there
    assert (await promoted.commit(appending(claim.token, 200, b"next"))).append is Append.done


async def test_in_a_cluster_every_node_answers_for_its_own_replicas(opened: Opened) -> None:
    cluster = Cluster()
    try:
        for server in cluster.servers:
            server.ask("CONFIG", "SET", "appendfsync", "always")
        first = cluster.owner("n")
        alone = cluster.servers[cluster.servers.index(first) + 3]
        alone.kill()  # the node of the first shard has no replica from now on
        await until(lambda: has_no_replica(first))
        strict = replace(cluster.address("n"), strict=True)
        store = await opened(strict, replace(QUICK, confirm_ms=100, cluster_shards=12))
        other = next(number for number in range(12) if server_of(cluster, store, number) is not first)
        here, there = in_shard(store, 0), in_shard(store, other)
        for run in (here, there):
            await store.submit(run)
        claims = {claim.token.run_id: claim for claim in await store.claim(request())}
        replica = cluster.servers[cluster.servers.index(server_of(cluster, store, other)) + 3]
        with away(replica):
            assert (await store.commit(appending(claims[here.run_id].token, 0, b"a"))).append is Append.done
            with pytest.raises(StoreUnavailable, match="fewer than 1 replicas have confirmed that"):
                await store.commit(appending(claims[there.run_id].token, 0, b"a"))
        assert (await store.commit(appending(claims[there.run_id].token, 0, b"a"))).append is Append.duplicate
    finally:
        cluster.stop()


async def has_no_replica(server: Server) -> bool:
    told = server.ask("INFO", "replication")
    return isinstance(told, bytes) and b"connected_slaves:0" in told


def test_a_node_that_took_the_place_of_another_must_have_as_many_replicas() -> None:
    route = Route(Address(host="first", strict=True), 1, in_cluster=True)
    assert route.replicas_of(("first", 1)) == 0
    route.wants_replicas(("first", 1), 0)
    route.wants_replicas(("second", 1), 1)
    assert [route.replicas_of((name, 1)) for name in ("first", "second", "promoted")] == [0, 1, 1]
