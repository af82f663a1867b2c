"""The stores that a world can be around: a file of its own, or a namespace of its own on servers that tests share."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from tests.faults.world import Kept
from tests.store.valkey.audit import audit
from tests.store.valkey.servers import Server, shared, shared_cluster

# as many as anything here has
_SHARDS = 64


def _on_one_server() -> Kept:
    server, name = shared("valkey"), os.urandom(6).hex()
    return Kept(
        server.url(name),
        lambda: audit(server.address(name), shards=_SHARDS),
        lambda chance: _upset(server, chance),
        lambda length_s: _halt(server, length_s),
    )


def _in_a_cluster() -> Kept:
    cluster, name = shared_cluster(), os.urandom(6).hex()
    return Kept(
        cluster.url(name),
        lambda: audit(cluster.address(name), in_cluster=True, shards=_SHARDS),
        lambda chance: _upset(chance.choice(cluster.servers), chance),
        lambda length_s: _halt(cluster.owner(name), length_s),
    )


def _upset(server: Server, chance: random.Random) -> None:
    """What an operator may do to a server at any time, and nobody should notice."""
    commands = [("SCRIPT", "FLUSH"), ("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "KILL", "TYPE", "pubsub")]
    with contextlib.suppress(OSError, StoreUnavailable):  # another upset may take our own connection
        server.ask(*chance.choice(commands))


def _halt(server: Server, length_s: float) -> None:
    server.ask("CLIENT", "PAUSE", round(length_s * 1000))


# kind of store -> makes a place for a world's runs; None: a file in the world's own folder
KEEPING: dict[str, Callable[[], Kept | None]] = {
    "sqlite": lambda: None,
    "valkey": _on_one_server,
    "cluster": _in_a_cluster,
}


# for tests of what only a file has: one lock for all who write, and a disk that may be full
on_a_file = pytest.mark.parametrize("keeping", ["sqlite"], indirect=True)


def kinds(*names: str) -> list[object]:
    """These kinds as parameters of a test. A cluster is six processes: one for the whole suite is enough."""
    return [pytest.param(name, marks=[pytest.mark.xdist_group(name)] if name == "cluster" else []) for name in names]
