"""One node of a cluster is away: what the others keep is not held up for it, and nothing is said of what it keeps."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from pyrula_runtime.core.blame import Budget
from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.locks import Token
from pyrula_runtime.core.status import DELIVERY, TERMINAL, RunStatus
from pyrula_runtime.duties import orphans
from pyrula_runtime.duties.burial import SECOND_LOOK_MS, Burial, Look
from pyrula_runtime.duties.standing_in import StandingIn
from pyrula_runtime.duties.timers import Timers
from pyrula_runtime.engine.lanes import Lanes
from pyrula_runtime.engine.renewal import Renewal
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.partly import PartlyUnavailable, as_far_as_known
from pyrula_runtime.stores.protocol import Amendment, RunQuery, RunRecord
from pyrula_runtime.stores.valkey.places import shard_of_run, tag_of
from pyrula_runtime.stores.valkey.route import slot_of
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from pyrula_runtime.wire import Stage, StandIn
from tests.store.samples import COMPLETED, DAY_MS, TTL_MS, alive_for, appending, message, request
from tests.store.valkey.audit import audit
from tests.store.valkey.away import away, persists, server_of, without_failover
from tests.store.valkey.servers import Cluster, Server
from tests.store.valkey.sharded import in_shard, made_by

pytestmark = pytest.mark.xdist_group("cluster")
Parted = Callable[[Iterable[str]], tuple[set[str], set[str]]]
SHARDS = 12
SOON = Settings(guarded=True, part_s=1.0, answer_s=2.0, connect_s=2.0, again_s=0.01)


class Told:
    """Lanes that hold these runs, and what they were told of them."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = list(tokens)
        self.dropped: list[Token] = []
        self.cancelled: set[str] = set()
        self.inbox: dict[str, int] = {}

    def held(self) -> list[Token]:
        return self._tokens

    def drop(self, tokens: list[Token]) -> None:
        self.dropped += tokens

    def cancel(self, run_ids: tuple[str, ...]) -> None:
        self.cancelled.update(run_ids)

    def tell(self, inbox: Mapping[str, int]) -> None:
        self.inbox.update(inbox)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = without_failover()
    yield cluster
    cluster.stop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(cluster: Cluster, clock: ManualClock) -> AsyncIterator[ValkeyStore]:
    """Shards on all three primaries; the store is sound at the end."""
    names = iter(lambda: os.urandom(6).hex(), "")
    name = next(name for name in names if len({slot_of(tag_of(name, each)) // 5462 for each in range(SHARDS)}) == 3)
    store = ValkeyStore(cluster.address(name), clock, SOON, shard_count=SHARDS)
    await store.open()
    yield store
    await store.close()
    assert audit(cluster.address(name), in_cluster=True, shards=SHARDS) == []


@pytest.fixture
def gone(cluster: Cluster, store: ValkeyStore) -> Server:
    """The node that will be away: not that of the first shard, where workers and leases are."""
    first = server_of(cluster, store, 0)
    return next(server for server in cluster.servers[:3] if server is not first)


async def submitted(store: ValkeyStore, *, start_at_ms: int | None = None) -> list[str]:
    """One run in each shard."""
    runs = [replace(in_shard(store, number), start_at_ms=start_at_ms) for number in range(SHARDS)]
    if start_at_ms is not None:
        runs = [replace(run, status=RunStatus.waiting) for run in runs]
    for run in runs:
        await store.submit(run)
    return [run.run_id for run in runs]


async def all_claimed(store: ValkeyStore) -> list[Token]:
    await submitted(store)
    tokens = [claim.token for claim in await store.claim(request(limit=99))]
    assert len(tokens) == SHARDS
    return tokens


async def statuses(store: ValkeyStore, run_ids: Iterable[str]) -> set[RunStatus]:
    records = [await store.read(run_id) for run_id in run_ids]
    return {record.status for record in records if record is not None}


async def locks_left(store: ValkeyStore, run_ids: Iterable[str]) -> set[int | None]:
    records = [await persists(partial(store.read, run_id)) for run_id in run_ids]
    return {record.lock_left_ms for record in records if record is not None}


@pytest.fixture
def parted(cluster: Cluster, store: ValkeyStore, gone: Server) -> Parted:
    """Parts runs into those that are there and those that are on the node that will be away."""

    def part(run_ids: Iterable[str]) -> tuple[set[str], set[str]]:
        runs = set(run_ids)
        missing = {run_id for run_id in runs if server_of(cluster, store, shard_of_run(run_id)) is gone}
        assert 0 < len(missing) < len(runs)
        return runs - missing, missing

    return part


async def test_a_cancel_and_a_message_on_another_node_are_heard_and_no_lock_counts_as_lost(
    store: ValkeyStore, gone: Server, parted: Parted, clock: ManualClock
) -> None:
    tokens = await all_claimed(store)
    there, missing = parted(token.run_id for token in tokens)
    for run_id in there | missing:
        record = await store.read(run_id)
        assert record is not None
        assert await store.amend(Amendment(run_id=run_id, rev=record.rev, cancel_requested=True))
        await store.deliver(message(run_id), DELIVERY)
    clock.move(TTL_MS // 2)
    lanes = Told(tokens)
    renewal = Renewal(store, cast(Lanes, lanes), TTL_MS)
    with away(gone):
        with pytest.raises(PartlyUnavailable, match="a part of the store gave no answer"):
            await renewal.act()
        assert (lanes.dropped, lanes.cancelled, lanes.inbox) == ([], there, dict.fromkeys(there, 1))
        assert await locks_left(store, there) == {TTL_MS}
    await persists(renewal.act)
    assert (lanes.dropped, lanes.cancelled) == ([], there | missing)


@pytest.mark.parametrize("which", ["another", "that of the first shard"])
async def test_a_dead_worker_is_buried_where_it_can_be_and_the_rest_follows(
    store: ValkeyStore, cluster: Cluster, gone: Server, tmp_path: Path, which: str
) -> None:
    gone = gone if which == "another" else server_of(cluster, store, 0)
    tokens = await all_claimed(store)
    missing = {each.run_id for each in tokens if server_of(cluster, store, shard_of_run(each.run_id)) is gone}
    there = {each.run_id for each in tokens} - missing
    looks = ManualClock()
    burial = Burial(store, tmp_path, looks, Budget())
    with away(gone):
        look = await burial.look("w-1")
        assert (set(look.freed), look.final) == (there, False)
        assert look.fault is not None
        assert await statuses(store, there) == {RunStatus.queued}
    assert set((await persists(lambda: whole(burial))).freed) == missing
    looks.move(SECOND_LOOK_MS)
    assert await burial.look("w-1") == Look(freed=(), blamed=(), final=True)


async def whole(burial: Burial) -> Look:
    """A look that reached every shard."""
    look = await burial.look("w-1")
    if look.fault is not None:
        raise look.fault
    return look


async def test_locks_of_a_mute_worker_are_kept_alive_on_the_other_nodes(
    store: ValkeyStore, gone: Server, parted: Parted, clock: ManualClock
) -> None:
    there, missing = parted(token.run_id for token in await all_claimed(store))
    standing = StandingIn(store, TTL_MS, clock.mono_ms, lambda who, run_ids: None)
    assert standing.hear(StandIn(incarnation="w-1", stage=Stage.renew))
    clock.move(TTL_MS // 2)
    with away(gone):
        with pytest.raises(PartlyUnavailable):
            await standing.act()
        assert await locks_left(store, there) == {TTL_MS}
    assert await locks_left(store, missing) == {TTL_MS // 2}
    await persists(standing.act)
    assert await locks_left(store, missing) == {TTL_MS}


async def test_a_scan_reclaims_on_the_other_nodes(
    store: ValkeyStore, gone: Server, parted: Parted, clock: ManualClock
) -> None:
    there, missing = parted(token.run_id for token in await all_claimed(store))
    await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 99)
    await alive_for(store, clock, TTL_MS + 1)
    with away(gone):
        with pytest.raises(StoreUnavailable):
            await orphans.scan(store, TTL_MS)
        assert await statuses(store, there) == {RunStatus.queued}
    await persists(lambda: orphans.scan(store, TTL_MS))
    assert await statuses(store, missing) == {RunStatus.queued}


async def test_timers_fire_on_the_other_nodes(
    store: ValkeyStore, gone: Server, parted: Parted, clock: ManualClock
) -> None:
    there, missing = parted(await submitted(store, start_at_ms=clock.wall_ms() + 1_000))
    clock.move(1_000)
    timers = Timers(store, lambda: None)
    with away(gone):
        with pytest.raises(StoreUnavailable):
            await timers.act()
        assert await statuses(store, there) == {RunStatus.queued}
    await persists(timers.act)
    assert await statuses(store, missing) == {RunStatus.queued}


async def test_what_is_over_goes_on_the_other_nodes(
    store: ValkeyStore, gone: Server, parted: Parted, clock: ManualClock
) -> None:
    keyed = [made_by(store, f"k{number}") for number in range(3 * SHARDS)]
    for run in keyed:
        await store.submit(run)
    for claim in await store.claim(request(limit=99)):
        await store.commit(replace(appending(claim.token, 0), ending=COMPLETED))
    there, missing = parted(run.run_id for run in keyed)
    clock.move(2 * DAY_MS)
    with away(gone):
        dropped, fault = await as_far_as_known(store.drop_finished(TERMINAL, DAY_MS, 99))
        purged, other = await as_far_as_known(store.purge(99))
        assert (dropped, purged) == (len(there), len(there))
        assert fault is not None
        assert other is not None
    assert await persists(lambda: store.drop_finished(TERMINAL, DAY_MS, 99)) == len(missing)
    assert await persists(lambda: store.purge(99)) == len(missing)


async def test_lists_and_counts_say_that_a_part_is_missing(store: ValkeyStore, gone: Server, parted: Parted) -> None:
    there, _ = parted(await submitted(store))
    with away(gone):
        with pytest.raises(PartlyUnavailable, match="a part of the store gave no answer") as told:
            await store.find(RunQuery(limit=99))
        assert {record.run_id for record in cast("tuple[RunRecord, ...]", told.value.answered)} == there
        counted, fault = await as_far_as_known(store.counts())
        assert (counted[("order", RunStatus.queued)], fault is not None) == (len(there), True)
    assert sum((await persists(store.counts)).values()) == SHARDS


async def test_a_sign_of_life_reaches_the_other_nodes_so_that_their_locks_are_not_taken_for_those_of_an_outage(
    store: ValkeyStore, gone: Server, parted: Parted, clock: ManualClock
) -> None:
    there, _ = parted(token.run_id for token in await all_claimed(store))
    await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 99)
    with away(gone):
        for _ in range(4):
            clock.move(TTL_MS // 3)
            with pytest.raises(PartlyUnavailable):
                await store.ping()
        lapsed, _ = await as_far_as_known(store.reclaim_lapsed(RunStatus.queued, TTL_MS, 99))
        assert (set(lapsed.run_ids), lapsed.grace) == (there, False)
