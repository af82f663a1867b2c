"""Leases of shards: fair shares, few moves, never two owners of a seat, and no shard that is forgotten."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from itertools import chain

import pytest

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Leased, LeaseRequest, NewRun, Serves, Wake
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import new_run, request
from tests.store.valkey.servers import shared

TTL_MS = 30_000
SERVES = (Serves(workflow="order", version="1"),)


class Fleet:
    """Workers of one store of so many shards; each asks for its leases when it is told to."""

    def __init__(self, shards: int) -> None:
        self.clock = ManualClock()
        self.shards = shards
        self.address = shared("valkey").address(os.urandom(6).hex())
        self.workers: dict[str, ValkeyStore] = {}
        self.leased: dict[str, Leased] = {}

    async def come(self, *names: str) -> None:
        for name in names:
            self.workers[name] = await self.handle()
            await self.ask(name)

    async def handle(self) -> ValkeyStore:
        settings = Settings(guarded=True, gather_s=0.01)
        store = ValkeyStore(self.address, self.clock, settings, shard_count=self.shards)
        await store.open()
        return store

    async def ask(self, *names: str, serves: tuple[Serves, ...] = SERVES) -> None:
        for name in names:
            asked = LeaseRequest(incarnation=name, serves=serves, ttl_ms=TTL_MS)
            self.leased[name] = await self.workers[name].lease(asked)

    async def settle(self) -> None:
        """Let everybody ask until nothing moves."""
        before: dict[str, Leased] = {}
        while before != self.leased:
            before = dict(self.leased)
            await self.ask(*self.workers)

    async def waited_ms(self, finder: str, asking: tuple[str, ...]) -> int:
        """For how long this worker has to claim, while these ask, until it gets a run."""
        waited_ms = 0
        while not await self.workers[finder].claim(request()):
            self.clock.move(TTL_MS // 3)
            waited_ms += TTL_MS // 3
            await self.ask(*asking)
        return waited_ms

    def sizes(self) -> list[int]:
        return sorted(len(self.leased[name].mine) for name in self.workers)

    def lessees(self) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {shard: [] for shard in range(self.shards)}
        for name in self.workers:
            for shard in self.leased[name].mine:
                found[shard].append(name)
        return found

    async def go(self, *names: str) -> None:
        for name in names:
            await self.workers[name].retire(name)
            await self.workers.pop(name).close()
            del self.leased[name]

    async def die(self, *names: str) -> None:
        for name in names:
            await self.workers.pop(name).close()
            del self.leased[name]


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    """Sixteen shards."""
    fleet = Fleet(16)
    yield fleet
    await fleet.die(*list(fleet.workers))


async def test_the_first_worker_has_all_and_the_next_get_their_share(fleet: Fleet) -> None:
    await fleet.come("w-1")
    assert fleet.sizes() == [16]
    await fleet.come("w-2", "w-3")
    await fleet.settle()
    assert fleet.sizes() == [5, 5, 6]
    assert all(len(names) == 1 for names in fleet.lessees().values())


async def test_nothing_is_taken_from_a_worker_that_keeps_asking(fleet: Fleet) -> None:
    await fleet.come("w-1")
    await fleet.come("w-2")
    await fleet.ask("w-2", "w-2", "w-2")
    assert fleet.sizes() == [0, 16]
    await fleet.ask("w-1")  # it is for him to hand on
    await fleet.ask("w-2")
    assert fleet.sizes() == [8, 8]


async def test_few_leases_move_when_workers_come_and_go(fleet: Fleet) -> None:
    await fleet.come(*[f"w-{number}" for number in range(4)])
    await fleet.settle()
    before = fleet.lessees()
    await fleet.come(*[f"v-{number}" for number in range(4)])
    await fleet.settle()
    assert fleet.sizes() == [2] * 8
    moved = [shard for shard, names in fleet.lessees().items() if names != before[shard]]
    assert 8 <= len(moved) <= 10  # the least is eight
    await fleet.go(*[f"v-{number}" for number in range(4)])
    await fleet.settle()
    assert fleet.sizes() == [4] * 4
    assert all(len(names) == 1 for names in fleet.lessees().values())


async def test_who_leaves_hands_on_at_once_and_the_heirs_are_told(fleet: Fleet) -> None:
    await fleet.come("w-1", "w-2")
    await fleet.settle()
    rung = asyncio.Event()
    listening = fleet.workers["w-1"].listen(lambda wake: rung.set(), frozenset({Wake.lease}))
    await listening.is_heard.wait()
    rung.clear()
    await fleet.go("w-2")
    await asyncio.wait_for(rung.wait(), 10)
    await fleet.ask("w-1")
    assert fleet.sizes() == [16]
    listening.close()


async def test_a_newcomer_rings_and_is_rung_for(fleet: Fleet) -> None:
    await fleet.come("w-1")
    rings = {name: asyncio.Event() for name in ("w-1", "w-2")}
    first = fleet.workers["w-1"].listen(lambda wake: rings["w-1"].set(), frozenset({Wake.lease}))
    await first.is_heard.wait()
    rings["w-1"].clear()
    fleet.workers["w-2"] = await fleet.handle()
    await fleet.ask("w-2")
    second = fleet.workers["w-2"].listen(lambda wake: rings["w-2"].set(), frozenset({Wake.lease}))
    await second.is_heard.wait()
    rings["w-2"].clear()
    await asyncio.wait_for(rings["w-1"].wait(), 10)
    await fleet.ask("w-1")
    await asyncio.wait_for(rings["w-2"].wait(), 10)
    await fleet.ask("w-2")
    assert fleet.sizes() == [8, 8]
    first.close()
    second.close()


async def test_the_shards_of_the_dead_are_handed_on_when_their_lease_is_over(fleet: Fleet) -> None:
    await fleet.come("w-1", "w-2")
    await fleet.settle()
    await fleet.die("w-2")
    fleet.clock.move(TTL_MS - 1)
    await fleet.ask("w-1")
    assert fleet.sizes() == [8]
    fleet.clock.move(2)
    await fleet.ask("w-1")
    assert fleet.sizes() == [16]


async def test_more_workers_than_shards_share_them(fleet: Fleet) -> None:
    await fleet.come(*[f"w-{number}" for number in range(24)])
    await fleet.settle()
    assert fleet.sizes() == [1] * 24  # nobody is without
    assert sorted(len(names) for names in fleet.lessees().values()) == [1] * 8 + [2] * 8
    await fleet.go(*[f"w-{number}" for number in range(20)])
    await fleet.settle()
    assert fleet.sizes() == [4] * 4
    assert all(len(names) == 1 for names in fleet.lessees().values())


async def test_workers_that_serve_something_else_share_among_themselves(fleet: Fleet) -> None:
    await fleet.come("w-1")
    fleet.workers["other"] = await fleet.handle()
    await fleet.ask("other", serves=(Serves(workflow="order", version="2"),))
    assert fleet.sizes() == [16, 16]


async def test_who_gave_up_and_comes_again_gets_a_share(fleet: Fleet) -> None:
    await fleet.come("w-1", "w-2")
    await fleet.settle()
    await fleet.workers["w-1"].give_up_leases("w-1")
    assert [lease.incarnation for lease in await fleet.workers["w-1"].leases()] == ["w-2"]
    await fleet.settle()
    assert fleet.sizes() == [8, 8]
    leases = await fleet.workers["w-2"].leases()
    assert sorted(chain.from_iterable(lease.shards for lease in leases)) == list(range(16))
    assert all(0 < lease.left_ms <= TTL_MS for lease in leases)


async def test_with_one_shard_nothing_is_asked_of_the_server() -> None:
    store = ValkeyStore(shared("valkey").address(os.urandom(6).hex()), None, Settings(guarded=True))
    await store.open()
    leased = await store.lease(LeaseRequest(incarnation="w-1", serves=SERVES, ttl_ms=TTL_MS))
    assert (leased.mine, leased.shards) == ((), 1)
    assert await store.leases() == ()
    await store.close()


def in_shard(store: ValkeyStore, number: int) -> NewRun:
    """A run in this shard."""
    while True:
        run = new_run(run=store.new_run_id(1, os.urandom(10)))
        if run.run_id.endswith(f"-{number:x}"):
            return run


async def test_claims_look_at_what_is_leased_and_a_sweep_finds_what_nobody_looks_at(fleet: Fleet) -> None:
    await fleet.come("w-1", "w-2")
    await fleet.settle()
    store = fleet.workers["w-1"]
    (mine, *_), (foreign, *_) = fleet.leased["w-1"].mine, fleet.leased["w-2"].mine
    await store.submit(in_shard(store, foreign))
    await store.submit(in_shard(store, mine))
    (claim,) = await store.claim(request())
    assert claim.token.run_id.endswith(f"-{mine:x}")
    # w-2 goes silent
    waited_ms = await fleet.waited_ms("w-1", asking=("w-1",))
    assert waited_ms <= TTL_MS
    assert fleet.sizes()[-1] == 8  # its lease is not over


async def test_a_shard_whose_lessee_asks_and_does_not_look_is_swept_in_the_end(fleet: Fleet) -> None:
    await fleet.come("w-1", "w-2")
    await fleet.settle()
    store = fleet.workers["w-1"]
    await store.submit(in_shard(store, fleet.leased["w-2"].mine[0]))
    assert await fleet.waited_ms("w-1", asking=("w-1", "w-2")) <= 11 * TTL_MS


async def test_shards_whose_lessees_ask_are_swept_once_in_ten_lives(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fleet.come("w-1", "w-2")
    await fleet.settle()
    swept: list[int] = []
    for store in fleet.workers.values():
        monkeypatch.setattr(store.lookout, "find", swept.extend)
    for _ in range(30):
        fleet.clock.move(TTL_MS // 3)
        await fleet.ask("w-1", "w-2")
    assert sorted(swept) == list(range(16))
