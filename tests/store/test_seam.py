"""The fault seam: each call can be broken at each of its moments, and without faults nothing is changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyrula_runtime.core.errors import StoreUnavailable
from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.memory.store import MemoryStore
from pyrula_runtime.stores.memory.world import World
from pyrula_runtime.stores.protocol import Append, Store, Wake
from pyrula_runtime.stores.seam import Crossing, Deed, Phase, Seam
from tests.store.samples import COMPLETED, appending, claimed, new_run


class Plan:
    """Does one deed at one call's phase, and notes every crossing."""

    def __init__(self) -> None:
        self.at: tuple[str, Phase] | None = None
        self.deed: Deed | StoreUnavailable = Deed.go_on
        self.seen: list[Crossing] = []

    def __call__(self, crossing: Crossing) -> Deed:
        self.seen.append(crossing)
        if (crossing.verb, crossing.phase) != self.at:
            return Deed.go_on
        if isinstance(self.deed, StoreUnavailable):
            raise self.deed
        return self.deed


@pytest.fixture
def plan() -> Plan:
    return Plan()


@pytest.fixture
async def store(plan: Plan) -> AsyncIterator[Store]:
    seam = Seam(MemoryStore(World(ManualClock())), plan)
    await seam.open()
    yield seam
    await seam.close()


async def test_every_call_crosses_three_times_under_its_number(store: Store, plan: Plan) -> None:
    plan.seen.clear()
    await store.submit(new_run())
    await asyncio.sleep(0)
    assert [(each.verb, each.phase) for each in plan.seen] == [("submit", phase) for phase in Phase]
    assert {each.number for each in plan.seen} == {2}


async def test_the_caller_goes_on_before_answered(store: Store, plan: Plan) -> None:
    order: list[str] = []
    plan.seen.clear()

    async def caller() -> None:
        await store.submit(new_run())
        order.append(f"caller after {len(plan.seen)} crossings")

    await caller()
    assert order == ["caller after 2 crossings"]


@pytest.mark.parametrize(("phase", "is_done"), [(Phase.before, False), (Phase.sent, True)])
async def test_a_call_that_vanishes_is_never_answered(store: Store, plan: Plan, phase: Phase, *, is_done: bool) -> None:
    plan.at, plan.deed = ("submit", phase), Deed.vanish
    submitting = asyncio.ensure_future(store.submit(new_run()))
    await store.ping()
    assert bool(await store.counts()) is is_done
    assert not submitting.done()


async def test_a_fault_before_sending_leaves_the_store_untouched(store: Store, plan: Plan) -> None:
    plan.at, plan.deed = ("submit", Phase.before), StoreUnavailable("cut")
    with pytest.raises(StoreUnavailable, match="cut"):
        await store.submit(new_run())
    assert await store.counts() == {}


async def test_a_lost_answer_was_executed_and_repeating_it_is_harmless(store: Store, plan: Plan) -> None:
    claim = await claimed(store)
    commit = appending(claim.token, 0, b"a", ending=COMPLETED)
    plan.at, plan.deed = ("commit", Phase.sent), Deed.lose
    with pytest.raises(StoreUnavailable, match="lost"):
        await store.commit(commit)
    plan.at = None
    assert (await store.commit(commit)).append is Append.duplicate


async def test_a_call_sent_twice_is_done_once(store: Store, plan: Plan) -> None:
    claim = await claimed(store)
    plan.at, plan.deed = ("commit", Phase.before), Deed.twice
    assert (await store.commit(appending(claim.token, 0, b"a"))).append is Append.duplicate
    assert await store.read_journal(claim.token.run_id, 0) == (b"a",)


async def test_a_store_error_comes_through(store: Store) -> None:
    run = new_run()
    await store.submit(run)
    assert (await store.submit(run)).submission == "existing"


async def test_wakes_pass_through(store: Store) -> None:
    rung = asyncio.Event()
    listening = store.listen(lambda wake: rung.set(), frozenset({Wake.ready}))
    await store.submit(new_run())
    await rung.wait()
    listening.close()


async def test_a_caller_that_left_changes_nothing(store: Store) -> None:
    claim = await claimed(store)
    store.commit(appending(claim.token, 0, b"a")).cancel()
    assert await store.read_journal(claim.token.run_id, 0) == (b"a",)
