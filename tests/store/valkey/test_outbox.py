"""Effects on runs of other shards: all of them get there, once, whoever dies or is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import CANCELLATION, DELIVERY, RunStatus
from pyrula_runtime.duties import retention
from pyrula_runtime.options import WorkerOptions
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Append, CancelRun, DeliverTo, Effect, RunRecord, Submission, SubmitRun
from pyrula_runtime.stores.valkey import outbox
from pyrula_runtime.stores.valkey.address import Address
from pyrula_runtime.stores.valkey.places import shard_of_run
from pyrula_runtime.stores.valkey.settings import Settings
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import COMPLETED, TTL_MS, appending, message, request, until
from tests.store.valkey.audit import audit
from tests.store.valkey.servers import shared
from tests.store.valkey.sharded import Opened, handles, in_shard


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(address: Address, clock: ManualClock) -> AsyncIterator[Opened]:
    """Opens handles with so many shards; the store is sound at the end."""
    async with handles(address, clock) as open_one:
        yield open_one


async def until_read(store: ValkeyStore, run_id: str, condition: Callable[[RunRecord], bool]) -> None:
    async def is_so() -> bool:
        record = await store.read(run_id)
        return record is not None and condition(record)

    await until(is_so)


async def test_what_a_commit_does_to_runs_of_other_shards_is_carried_there(opened: Opened) -> None:
    store = await opened(8)
    told, struck, child = in_shard(store, 1), in_shard(store, 2), in_shard(store, 3)
    for run in (told, struck):
        await store.submit(run)
    parent = in_shard(store, 0)
    await store.submit(parent)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    effects = (
        DeliverTo(message=message(told.run_id, "a"), moves=DELIVERY),
        DeliverTo(message=message(told.run_id, "b"), moves=DELIVERY),
        CancelRun(run_id=struck.run_id, moves=CANCELLATION),
        SubmitRun(run=child),
    )
    wanted = replace(appending(claims[parent.run_id].token, 0, b"x"), effects=effects)
    assert (await store.commit(wanted)).append is Append.done
    await until_read(store, told.run_id, lambda record: record.inbox_len == 2)
    await until_read(store, struck.run_id, lambda record: record.cancel_requested)
    await until_read(store, child.run_id, lambda record: record.status is RunStatus.queued)
    assert [received.message_id for received in await store.read_inbox(told.run_id, 0)] == ["a", "b"]
    # an answer that was lost: told again, nothing is done twice
    assert (await store.commit(wanted)).append is Append.duplicate
    await store.holdings("somebody")
    assert await store.carry(99) == 0
    assert len(await store.read_inbox(told.run_id, 0)) == 2


async def test_a_run_is_not_begun_again_by_a_carrier_that_stood_still(
    opened: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(8)
    parent, child = in_shard(store, 0), in_shard(store, 3)
    await store.submit(parent)
    (claim,) = await store.claim(request())
    with monkeypatch.context() as patched:
        patched.setattr(outbox, "FRESH_S", -1.0)  # as if it woke up after a long while
        await store.commit(replace(appending(claim.token, 0, b"x"), effects=(SubmitRun(run=child),)))
        store._outbox.has_left_over(0)
        with pytest.raises(StoreUnavailable, match="stood still while it carried effects"):
            await store.carry(9)
        assert await store.read(child.run_id) is None
    await store.carry(9)
    await until_read(store, child.run_id, lambda record: record.status is RunStatus.queued)
    (begun,) = await store.claim(request())
    await store.commit(appending(begun.token, 0, ending=COMPLETED))
    clock.move(round(outbox.FRESH_S) * 1_000 + 60_000)
    await retention.drop(store, WorkerOptions(retention=1))
    assert (await store.submit(child)).submission is Submission.existing
    clock.move(round(retention.LEAST_OF_SHARDS_S) * 1_000)
    await retention.drop(store, WorkerOptions(retention=1))
    assert await store.read(child.run_id) is None


async def test_more_effects_than_are_carried_at_once_are_all_carried(opened: Opened) -> None:
    # of one write, and of many that are answered together
    store = await opened(8)
    (parent, told), total = (in_shard(store, 0), in_shard(store, 1)), 150
    await store.submit(told)
    for run in (parent, *(in_shard(store, 0) for _ in range(total))):
        await store.submit(run)
    claims = await store.claim(request(limit=total + 1))

    def saying(*names: str) -> tuple[DeliverTo, ...]:
        return tuple(DeliverTo(message=message(told.run_id, name), moves=DELIVERY) for name in names)

    first, *others = [claim.token for claim in claims if claim.token.run_id != told.run_id]
    many = saying(*(f"of one {number}" for number in range(total)))
    await store.commit(replace(appending(first, 0, b"x"), effects=many))
    await until_read(store, told.run_id, lambda record: record.inbox_len == total)
    one_each = [replace(appending(token, 0, b"x"), effects=saying(token.run_id)) for token in others]
    await asyncio.gather(*map(store.commit, one_each))
    await until_read(store, told.run_id, lambda record: record.inbox_len == total + len(others))


async def test_effects_whose_writer_died_are_carried_by_whoever_looks(opened: Opened) -> None:
    store, other = await opened(8), await opened(8)
    run, child = in_shard(store, 4), in_shard(store, 5)
    await store.submit(run)
    (claim,) = await store.claim(request())
    wanted = replace(appending(claim.token, 0, b"x"), effects=(SubmitRun(run=child),))
    assert (await store.shard(4).commit(wanted)).append is Append.done  # and nobody carries
    assert await other.read(child.run_id) is None
    assert await other.carry(99) == 0  # nothing was seen yet
    await other.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
    assert await other.carry(99) == 1
    assert await other.read(child.run_id) is not None
    assert await other.carry(99) == 0


async def test_an_effect_that_cannot_be_carried_keeps_those_of_other_shards_from_nothing(
    opened: Opened, address: Address
) -> None:
    store = await opened(8)
    blocked, child, senders = in_shard(store, 6), in_shard(store, 7), [in_shard(store, 2), in_shard(store, 3)]
    for run in (blocked, *senders):
        await store.submit(run)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    obstacle = f"{store.tag(6)}ms:{blocked.run_id}"
    shared("valkey").ask("SET", obstacle, "not a set")
    effects: list[Effect] = [DeliverTo(message=message(blocked.run_id), moves=DELIVERY), SubmitRun(run=child)]
    for run, effect in zip(senders, effects, strict=True):
        wanted = replace(appending(claims[run.run_id].token, 0, b"x"), effects=(effect,))
        await store.shard(shard_of_run(run.run_id)).commit(wanted)  # and nobody carries
    await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 10)
    assert await store.carry(99) == 1
    assert await store.read(child.run_id) is not None
    with pytest.raises(StoreUnavailable):
        await store.carry(99)
    shared("valkey").ask("DEL", obstacle)
    assert await store.carry(99) == 1


async def test_an_effect_that_only_a_newer_version_knows_waits_for_it_and_holds_up_no_other(
    opened: Opened, address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    # workers of two versions share a store while it is upgraded
    store = await opened(8)
    told, sender = in_shard(store, 6), in_shard(store, 2)
    for run in (told, sender):
        await store.submit(run)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    newer = """
        for _ = 1, 150 do
            local n = redis.call('INCR', KEYS[1] .. 'on')
            redis.call('ZADD', KEYS[1] .. 'ob', n, cmsgpack.pack({n, 'hasten', ARGV[1], 'x'}))
        end"""
    shared("valkey").ask("EVAL", newer, 1, store.tag(2), store.tag(6))
    effects = (DeliverTo(message=message(told.run_id), moves=DELIVERY),)
    await store.commit(replace(appending(claims[sender.run_id].token, 0, b"x"), effects=effects))
    await until_read(store, told.run_id, lambda record: record.inbox_len == 1)
    for _ in range(2):
        await store.holdings("somebody")
        assert await store.carry(99) == 0
    assert shared("valkey").ask("ZCARD", f"{store.tag(2)}ob") == 150
    (warning,) = [record.getMessage() for record in caplog.records if "outbox" in record.name]
    assert "'hasten' that only a newer pyrula can carry out" in warning
    shared("valkey").ask("DEL", f"{store.tag(2)}ob")


async def test_what_cannot_be_carried_to_one_shard_keeps_nothing_behind_it_from_others(
    opened: Opened, address: Address
) -> None:
    store = await opened(8)
    blocked, child, sender = in_shard(store, 6), in_shard(store, 7), in_shard(store, 2)
    for run in (blocked, sender):
        await store.submit(run)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    obstacle = f"{store.tag(6)}ms:{blocked.run_id}"
    shared("valkey").ask("SET", obstacle, "not a set")
    effects: list[Effect] = [
        DeliverTo(message=message(blocked.run_id, f"{each}"), moves=DELIVERY) for each in range(150)
    ]
    wanted = replace(appending(claims[sender.run_id].token, 0, b"x"), effects=(*effects, SubmitRun(run=child)))
    await store.shard(2).commit(wanted)  # and nobody carries
    await store.holdings("somebody")
    with pytest.raises(StoreUnavailable):
        await store.carry(999)
    assert await store.read(child.run_id) is not None
    shared("valkey").ask("DEL", obstacle)
    assert await store.carry(999) == 150


async def test_a_cancel_that_came_before_its_run_could_be_begun_comes_once_more(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a server whose memory is full begins no run, and has nobody to be cancelled
    store = await opened(8)
    child, sender = in_shard(store, 6), in_shard(store, 2)
    await store.submit(sender)
    (claim,) = await store.claim(request())
    effects = (SubmitRun(run=child), CancelRun(run_id=child.run_id, moves=CANCELLATION))
    await store.shard(2).commit(replace(appending(claim.token, 0, b"x"), effects=effects))  # and nobody carries
    await store.holdings("somebody")
    carry_one = store._outbox._carry_one

    async def full(effect: Sequence[Any], read_s: float) -> None:
        if effect[1] == b"submit":
            raise StoreUnavailable("its memory is full")
        await carry_one(effect, read_s)

    with monkeypatch.context() as patched:
        patched.setattr(store._outbox, "_carry_one", full)
        with pytest.raises(StoreUnavailable, match="full"):
            await store.carry(9)
    assert await store.carry(9) == 2
    await until_read(store, child.run_id, lambda record: record.cancel_requested)


async def test_what_could_not_be_carried_is_tried_again_by_whoever_wrote_it(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a node that fails over is away for seconds, and the next scan may be a minute off
    store = ValkeyStore(address, None, Settings(guarded=True, carry_s=0.01), shard_count=8)
    await store.open()
    told, sender = in_shard(store, 6), in_shard(store, 2)
    for run in (told, sender):
        await store.submit(run)
    claims = {claim.token.run_id: claim for claim in await store.claim(request())}
    outbox = store._outbox
    carry_one, refused = outbox._carry_one, list[Sequence[Any]]()

    async def refuse(effect: Sequence[Any], read_s: float) -> None:
        refused.append(effect)
        if len(refused) < 3:
            raise StoreUnavailable("the node of this shard is failing over")
        await carry_one(effect, read_s)

    monkeypatch.setattr(outbox, "_carry_one", refuse)
    effects = (DeliverTo(message=message(told.run_id), moves=DELIVERY),)
    await store.commit(replace(appending(claims[sender.run_id].token, 0, b"x"), effects=effects))
    await until_read(store, told.run_id, lambda record: record.inbox_len == 1)
    await store.close()
    assert audit(address, shards=8) == []
