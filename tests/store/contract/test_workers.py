"""Beat, retire, workers: who is there."""

from __future__ import annotations

from dataclasses import replace

from pyrula_runtime.stores.clock import ManualClock
from pyrula_runtime.stores.protocol import Store
from tests.store.samples import worker


async def test_a_worker_is_known_as_it_last_told_with_its_age(store: Store, clock: ManualClock) -> None:
    await store.beat(worker("b"), 60_000)
    clock.move(4_000)
    await store.beat(worker("a"), 60_000)
    clock.move(1_000)
    await store.beat(worker("a", running=7), 60_000)
    clock.move(500)
    assert await store.workers() == (
        replace(worker("a", running=7), age_ms=500),
        replace(worker("b"), age_ms=5_500),
    )


async def test_the_silent_are_forgotten_and_the_retired_at_once(store: Store, clock: ManualClock) -> None:
    for name in ("silent", "retired", "here"):
        await store.beat(worker(name), 60_000)
    clock.move(60_001)
    await store.beat(worker("here"), 60_000)
    await store.beat(worker("retired"), 60_000)
    await store.retire("retired")
    await store.retire("retired")
    assert [known.incarnation for known in await store.workers()] == ["here"]
