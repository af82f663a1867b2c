"""What `cluster=True` and `cluster=False` say against the server's own word, and the sentence where they are wrong."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from pyrula_runtime.core.errors import StoreRefused
from pyrula_runtime.stores.protocol import Append
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import appending, claimed, new_run
from tests.store.valkey.servers import Cluster, Server, kinds_of_server, shared, shared_cluster

pytestmark = pytest.mark.xdist_group("cluster")
_TOLD, _HIDDEN = b"cluster_enabled:1", b"cluster_enabled:0"


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass on, hiding the cluster; what may be the beginning of the telling words waits for the rest."""
    held = b""
    with suppress(OSError):
        while some := await source.read(65_536):
            told = (held + some).replace(_TOLD, _HIDDEN)
            held = next((_TOLD[:size] for size in range(len(_TOLD), 0, -1) if told.endswith(_TOLD[:size])), b"")
            target.write(told.removesuffix(held))
            await target.drain()
    target.close()


@pytest.fixture
def cluster() -> Cluster:
    return shared_cluster()


def spread(cluster: Cluster, *, here: bool) -> str:
    """A namespace that the first node has, or another one."""
    while True:
        namespace = os.urandom(6).hex()
        if (cluster.owner(namespace) is cluster.servers[0]) is here:
            return namespace


@pytest.fixture
async def door(cluster: Cluster) -> AsyncIterator[int]:
    """The port of a proxy before the cluster's first node, which hides that there is a cluster."""
    going: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", cluster.servers[0].port)
        going.update(asyncio.ensure_future(_pump(*ends)) for ends in ((reader, inner_writer), (inner_reader, writer)))

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await asyncio.gather(*going)


async def use(store: ValkeyStore) -> None:
    await store.open()
    claim = await claimed(store)
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.done
    await asyncio.gather(*[store.submit(new_run()) for _ in range(20)])
    assert sum((await store.counts()).values()) == 21
    await store.ping()
    await store.close()


async def test_a_cluster_that_a_proxy_hides_is_used_as_one(cluster: Cluster, door: int) -> None:
    url = f"valkey://127.0.0.1:{door}?namespace={spread(cluster, here=False)}"
    with pytest.raises(StoreRefused, match=r"is a node of a cluster, and others have some of the keys .* cluster=True"):
        await ValkeyStore(url).open()
    store = ValkeyStore(url, cluster=True)
    await use(store)
    assert len(store.route.nodes()) == 3


@pytest.mark.parametrize("said", [{"cluster": True}, {}])
async def test_a_cluster_that_says_so_needs_no_word(cluster: Cluster, said: dict[str, bool]) -> None:
    store = ValkeyStore(cluster.url(spread(cluster, here=False)), cluster=said.get("cluster"))
    await use(store)
    assert len(store.route.nodes()) == 3


async def test_what_is_told_to_be_no_cluster_is_used_as_one_server(cluster: Cluster) -> None:
    # as if the node passed on what it has not; here it has all keys of the one shard
    store = ValkeyStore(cluster.url(spread(cluster, here=True)), cluster=False)
    await use(store)
    assert store.route.nodes() == {None}


async def test_a_node_that_has_not_all_keys_is_no_server_by_itself(cluster: Cluster) -> None:
    with pytest.raises(StoreRefused, match="open the store with cluster=True"):
        await ValkeyStore(cluster.url(spread(cluster, here=False)), cluster=False).open()


@pytest.mark.parametrize("kind", kinds_of_server())
async def test_a_server_alone_is_refused_as_a_cluster(kind: str) -> None:
    server: Server = shared(kind)
    with pytest.raises(StoreRefused, match=r"is in no cluster \(.*\); if it stands alone, leave out cluster=True"):
        await ValkeyStore(server.url(), cluster=True).open()
