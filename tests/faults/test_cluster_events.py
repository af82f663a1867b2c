"""What befalls a cluster under workers that use it: a slot that moves, a primary that dies; nobody has to help."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from tests.faults.ordeal import HASTY, Ordeal
from tests.faults.world import Kept, World
from tests.store.samples import until
from tests.store.valkey.audit import audit
from tests.store.valkey.servers import Cluster

pytestmark = pytest.mark.xdist_group("cluster")
NAME = "moving"


async def test_runs_stay_with_who_has_them_while_their_slot_moves_and_its_primary_dies(forge: Path) -> None:
    cluster = await asyncio.to_thread(Cluster)
    try:
        with tempfile.TemporaryDirectory(prefix="pyw") as folder:
            survivor = cluster.servers[5]
            kept = Kept(cluster.url(NAME), lambda: audit(survivor.address(NAME), in_cluster=True))
            world = World(Path(folder), forge, kept=kept)
            await world.open()
            ordeal = Ordeal(world, settings=HASTY)
            try:
                await ordeal.begin()
                await asyncio.to_thread(cluster.move, NAME)
                await until(ordeal.reaches)
                await ordeal.end()
                again = Ordeal(world, settings=HASTY)
                await again.begin()
                await again.settled()
                owner = cluster.owner(NAME)
                await asyncio.to_thread(owner.replicated, f"{cluster.address(NAME).tag}sign")
                await asyncio.to_thread(owner.kill)
                await again.end()
            finally:
                await world.close()
    finally:
        await asyncio.to_thread(cluster.stop)
