"""Calls that are lost on their way, or whose answers are: done once or not at all, and a repetition settles it.

A transport that repeats by itself runs a call twice after one lost answer; a lane does not, and the contract's own
repetition is recognised by what it says.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.core.status import DELIVERY, RunStatus
from pyrula_runtime.stores.protocol import Amendment, Append, Claim, Release, RunRecord, Submission
from pyrula_runtime.stores.valkey.store import ValkeyStore
from tests.store.samples import COMPLETED, TTL_MS, appending, claimed, message, new_run, request, until
from tests.store.valkey.audit import audit
from tests.store.valkey.proxy import Deed, Fault, Proxy
from tests.store.valkey.servers import shared

Opened = Callable[..., Awaitable[ValkeyStore]]
Act = Callable[[ValkeyStore, Claim], Awaitable[Any]]
RUN = new_run(key="order 7")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb as a test calls it, and the script that it is."""

    script: str
    act: Act


def _release(claim: Claim) -> Release:
    return Release(token=claim.token, status=RunStatus.queued, ready=True)


def _cancel(claim: Claim) -> Amendment:
    return Amendment(run_id=claim.token.run_id, rev=2, cancel_requested=True)


VERBS = {
    "submit": Verb(script="submit", act=lambda store, _: store.submit(RUN)),
    "claim": Verb(script="claim", act=lambda store, _: store.claim(request(incarnation="w-2"))),
    "append": Verb(script="append", act=lambda store, claim: store.commit(appending(claim.token, 0, b"a", b"b"))),
    "finish": Verb(
        script="commit", act=lambda store, claim: store.commit(appending(claim.token, 0, b"a", ending=COMPLETED))
    ),
    "release": Verb(script="release", act=lambda store, claim: store.release(_release(claim))),
    "renew": Verb(script="renew", act=lambda store, claim: store.renew([claim.token], TTL_MS)),
    "cancel": Verb(script="amend", act=lambda store, claim: store.amend(_cancel(claim))),
    "deliver": Verb(script="deliver", act=lambda store, claim: store.deliver(message(claim.token.run_id), DELIVERY)),
}
# deed and bytes that pass: before and inside of the call, before and inside of its reply; and a call that is run twice
FAULTS = [
    (Deed.cut, 0),
    (Deed.cut, 1),
    (Deed.cut, 40),
    (Deed.cut, 150),
    (Deed.lose, 0),
    (Deed.lose, 1),
    (Deed.twice, 0),
]


async def told_again(act: Callable[[], Awaitable[Any]]) -> Any:
    """Do as the contract says: call, and repeat the call word for word while nobody knows what became of it."""
    while True:
        try:
            return await act()
        except StoreUnavailable:
            await asyncio.sleep(0)


async def facts(store: ValkeyStore, claim: Claim) -> list[Any]:
    """All that a verb may have changed, without times."""
    found: list[Any] = []
    for run_id in (claim.token.run_id, RUN.run_id, *[run.token.run_id for run in await store.holdings("w-2")]):
        record = await store.read(run_id)
        assert record is None or isinstance(record, RunRecord)
        if record is not None:
            record = replace(record, run_id="", created_ms=0, started_ms=None, finished_ms=None, lock_left_ms=None)
        found += [record, await store.read_journal(run_id, 0)]
    return found


async def after(store: ValkeyStore, road: Proxy, verb: Verb, fault: Fault | None) -> list[Any]:
    """The store after one call of a verb, through a road with a fault."""
    claim = await claimed(store)
    await store.submit(new_run())
    if fault is not None:
        road.plan(fault)
    await told_again(lambda: verb.act(store, claim))
    assert not road.planned
    return await facts(store, claim)


@pytest.mark.parametrize("name", VERBS)
async def test_a_call_cut_anywhere_is_done_once(opened: Opened, road: Proxy, name: str) -> None:
    verb = VERBS[name]
    expected = await after(await opened(road.address(os.urandom(6).hex())), road, verb, None)
    for deed, passing in FAULTS:
        address = road.address(os.urandom(6).hex())
        fault = Fault(call=verb.script, deed=deed, after=passing)
        assert await after(await opened(address), road, verb, fault) == expected, fault
        assert audit(shared("valkey").address(address.namespace)) == []


async def test_a_submit_whose_answer_was_lost_is_answered_with_the_run_that_it_made(
    opened: Opened, road: Proxy
) -> None:
    store = await opened(road.address(os.urandom(6).hex()))
    for run in (new_run(), new_run(key="k")):
        road.plan(Fault(call="submit", deed=Deed.lose))
        with pytest.raises(StoreUnavailable, match="was lost"):
            await store.submit(run)
        again = await store.submit(run)
        assert (again.run_id, again.submission) == (run.run_id, Submission.existing)


async def test_a_commit_whose_answer_was_lost_is_a_duplicate_and_not_another_entry(opened: Opened, road: Proxy) -> None:
    store = await opened(road.address(os.urandom(6).hex()))
    claim = await claimed(store)
    for at, ending in ((0, None), (1, COMPLETED)):
        commit = appending(claim.token, at, b"entry", ending=ending)
        road.plan(Fault(call="append" if ending is None else "commit", deed=Deed.lose))
        with pytest.raises(StoreUnavailable):
            await store.commit(commit)
        assert (await store.commit(commit)).append is Append.duplicate
    assert len(await store.read_journal(claim.token.run_id, 0)) == 2


async def test_a_broken_connection_takes_every_call_along_and_repeats_none(opened: Opened, road: Proxy) -> None:
    store = await opened(road.address(os.urandom(6).hex()))
    claim = await claimed(store)
    road.plan(Fault(call="append", deed=Deed.lose, nth=3))
    commits = [appending(claim.token, at, b"%d" % at) for at in range(6)]
    told = await asyncio.gather(*map(store.commit, commits), return_exceptions=True)
    answers = [answer.append if not isinstance(answer, BaseException) else type(answer) for answer in told]
    assert answers == [Append.done] * 2 + [StoreUnavailable] * 4
    assert road.events["append"] == 6  # nothing was sent again behind the caller's back
    again = [(await store.commit(commit)).append for commit in commits[2:]]
    assert again == [Append.duplicate] * 4


async def test_a_call_that_arrives_late_does_what_it_says_or_nothing(opened: Opened, road: Proxy) -> None:
    # the network keeps a call for longer than the caller has patience, and delivers it at last
    namespace = os.urandom(6).hex()
    direct = await opened(shared("valkey").address(namespace))
    store = await opened(road.address(namespace))
    claim = await claimed(direct)
    road.block()
    late = asyncio.ensure_future(store.commit(appending(claim.token, 0, b"late")))
    await asyncio.sleep(0)
    assert await direct.release(_release(claim))
    (again,) = await direct.claim(request(incarnation="w-2"))
    assert (await direct.commit(appending(again.token, 0, b"mine"))).append is Append.done
    road.clear()
    assert (await late).append is Append.fenced
    assert list(await direct.read_journal(claim.token.run_id, 0)) == [b"mine"]


async def test_a_claim_and_its_lock_are_one_write_whoever_sweeps_meanwhile(opened: Opened, road: Proxy) -> None:
    # a sweeper that comes between a pop and its mark would take the run for lost
    namespace = os.urandom(6).hex()
    store, sweeper = await opened(road.address(namespace)), await opened(shared("valkey").address(namespace))
    runs = [new_run() for _ in range(20)]
    for run in runs:
        await sweeper.submit(run)
    for nth, deed in enumerate([Deed.cut, Deed.lose] * 5):
        road.plan(Fault(call="claim", deed=deed, after=nth))
        claiming = asyncio.ensure_future(store.claim(request(limit=2)))
        while not claiming.done():
            assert (await sweeper.reclaim_lapsed(RunStatus.queued, TTL_MS, 100)).run_ids == ()
        assert isinstance(claiming.exception(), StoreUnavailable)
        assert audit(shared("valkey").address(namespace)) == []
    held = await sweeper.holdings("w-1")
    assert len(held) == 10  # those whose answer was lost: a burial, or the worker that asks, finds them
    assert {holding.token.fence for holding in held} == {1}


async def test_a_sweeper_that_dies_leaves_no_lock_behind(opened: Opened, road: Proxy) -> None:
    namespace = os.urandom(6).hex()
    store, dying = await opened(shared("valkey").address(namespace)), await opened(road.address(namespace))
    await store.submit(new_run())
    (claim,) = await store.claim(request(ttl_ms=1))

    async def has_lapsed() -> bool:
        record = await store.read(claim.token.run_id)
        assert record is not None
        assert record.lock_left_ms is not None
        return record.lock_left_ms < 0

    await until(has_lapsed)
    road.plan(Fault(call="reclaim", deed=Deed.cut, after=60))
    with pytest.raises(StoreUnavailable):
        await dying.reclaim_lapsed(RunStatus.queued, TTL_MS, 100)
    assert (await store.reclaim_lapsed(RunStatus.queued, TTL_MS, 100)).run_ids == (claim.token.run_id,)
