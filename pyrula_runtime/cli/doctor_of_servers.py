"""What `pyrula doctor` tells of a store that servers keep: each of them, what a run takes there, shards and leases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyrula_runtime.cli.tables import size
from pyrula_runtime.stores.protocol import RunQuery, Store

if TYPE_CHECKING:
    from pyrula_runtime.cli.doctor import Findings
    from pyrula_runtime.stores.valkey.checkup import Server

# runs that are weighed
_WEIGHED = 100


async def look_at_servers(found: Findings, store: Store) -> None:
    """Ask all servers of an open store, weigh its youngest runs, and see who leases what."""
    from pyrula_runtime.stores.valkey import checkup
    from pyrula_runtime.stores.valkey.store import ValkeyStore

    assert isinstance(store, ValkeyStore)
    servers = await asyncio.to_thread(checkup.servers_of, store)
    for server in servers:
        found.faults += [f"the server at {server.place} {fault}" for fault in server.faults]
        found.warnings += [f"the server at {server.place} {warning}" for warning in server.warnings]
    weight = await asyncio.to_thread(checkup.weigh, store, await store.find(RunQuery(limit=_WEIGHED)))
    found.store |= {
        "servers": [_facts(server) for server in servers],
        "weighed_runs": weight.runs if weight else 0,
        "bytes_a_run": weight.bytes_a_run if weight else None,
        "shards": store.shards,
        "leases": {lease.incarnation: list(lease.shards) for lease in await store.leases()},
    }
    if unleased := _unleased(found):
        found.warnings.append(
            f"shards {', '.join(map(str, unleased))} are leased by nobody, though workers are there; their runs are "
            f"claimed last, until a worker takes them"
        )


def _facts(server: Server) -> dict[str, Any]:
    """What a server is; what is wrong with it stands among the faults and warnings of all."""
    return {name: value for name, value in asdict(server).items() if name not in ("faults", "warnings")}


def _unleased(found: Findings) -> list[int]:
    """Shards that nobody leases while somebody could; with one shard there are no leases."""
    shards, leases = found.store["shards"], found.store["leases"]
    if shards == 1 or not any(not worker["draining"] for worker in found.workers):
        return []
    return sorted(set(range(shards)) - {number for numbers in leases.values() for number in numbers})


def server_lines(store: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The same for people: names and values."""
    if "servers" not in store:
        return
    yield "servers", "\n".join(_line(server) for server in store["servers"])
    if store["bytes_a_run"]:
        yield "memory", _budget(store)
    leases = [f"{len(numbers)} by {incarnation}" for incarnation, numbers in sorted(store["leases"].items())]
    yield "shards", f"{store['shards']}, leased {', '.join(leases)}" if leases else str(store["shards"])


def _line(server: Mapping[str, Any]) -> str:
    from pyrula_runtime.stores.valkey.checkup import KEEPING

    replicas = "1 replica" if server["replicas"] == 1 else f"{server['replicas']} replicas"
    keeps = KEEPING.get(server["keeps"], server["keeps"])
    of = f" of {size(server['limit_bytes'])}" if server["limit_bytes"] else ", no limit"
    return (
        f"{server['place']}: {server['version']}, {server['role']} with {replicas}, {keeps}, {server['eviction']}, "
        f"{size(server['used_bytes'])} used{of}, clock {server['ahead_ms']:+d} ms"
    )


def _budget(store: Mapping[str, Any]) -> str:
    """What a run takes, what all take, and how many more there is room for."""
    each, runs = store["bytes_a_run"], sum(store["runs"].values())
    told = f"{size(each)} a run (of {store['weighed_runs']} weighed), about {size(each * runs)} for all {runs:,}"
    left = [server["limit_bytes"] - server["used_bytes"] for server in store["servers"] if server["limit_bytes"]]
    if len(left) < len(store["servers"]):
        return f"{told}; a million runs would take {size(each * 1_000_000)}"
    return f"{told}; room for about {max(sum(left), 0) // each:,} more"
