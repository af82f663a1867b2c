"""How fast workers that come and go share the shards of a store, and how many shards change hands for it."""

from __future__ import annotations

import asyncio
import time

from benchmarks.bench import Bench
from benchmarks.figures import Case, Measurement, Metric
from benchmarks.systems.peers import PYRULA
from benchmarks.systems.supervisor import Given, Supervised, supervised
from benchmarks.systems.valkey import Server
from pyrula.stores import ValkeyStore

_SHARDS = 64
_LOOK_S = 0.005
_PATIENCE_S = 120.0


def measurement() -> Measurement:
    """The product: nobody else shares a queue so."""
    return Measurement(
        name="leases",
        title=f"Workers that come and go share {_SHARDS} shards, one Valkey server",
        about=(
            "One supervised worker has all shards; seven more are started, then four of the eight are stopped. "
            "Balanced: every shard has a lessee, and nobody has two more than another. The least that can change hands "
            f"is {_SHARDS * 7 // 8}, then {_SHARDS // 2}."
        ),
        metrics=(
            Metric(key="up", title="1 → 8: from the command until balanced", unit="s"),
            Metric(key="up_moves", title="1 → 8: shards that changed hands", unit=""),
            Metric(key="down", title="8 → 4: from the command until balanced", unit="s"),
            Metric(key="down_moves", title="8 → 4: shards that changed hands", unit=""),
        ),
        cases=(Case(system="Pyrula", run=_run, at_most=5),),
    )


def _run(bench: Bench) -> dict[str, float]:
    many, few = bench.size(8, 2), bench.size(4, 1)
    with bench.home() as home:
        server = Server(home)
        given = Given(app=PYRULA.module, procs=1, store=server.url, flags=("--shard-count", str(_SHARDS)))
        with supervised(home, given) as supervisor:
            supervisor.ready()
            return asyncio.run(_watched(supervisor, many, few))


async def _watched(supervisor: Supervised, many: int, few: int) -> dict[str, float]:
    store = ValkeyStore(supervisor.url)
    await store.open()
    try:
        await _balanced(store, 1)
        began_s = time.monotonic()
        supervisor.scale(many)
        up_moves = await _balanced(store, many)
        up_s = time.monotonic()
        supervisor.scale(few)
        down_moves = await _balanced(store, few)
        down_s = time.monotonic()
    finally:
        await store.close()
    return {
        "up": up_s - began_s,
        "up_moves": float(up_moves),
        "down": down_s - up_s,
        "down_moves": float(down_moves),
    }


async def _balanced(store: ValkeyStore, workers: int) -> int:
    """Watch until so many share all shards evenly; how often a shard has changed hands."""
    moves, deadline_s = 0, time.monotonic() + _PATIENCE_S
    before: dict[int, str] = {}  # by shard, who leases it
    while time.monotonic() < deadline_s:
        leases = await store.leases()
        now = {shard: lease.incarnation for lease in leases for shard in lease.shards}
        moves += sum(shard in before and before[shard] != who for shard, who in now.items())
        before = now
        sizes = [len(lease.shards) for lease in leases]
        if len(sizes) == workers and len(now) == store.shards and max(sizes) - min(sizes) <= 1:
            return moves
        await asyncio.sleep(_LOOK_S)
    raise TimeoutError(f"{workers} workers did not come to share the shards evenly: {before}")
