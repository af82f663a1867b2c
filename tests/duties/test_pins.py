"""Runs whose version nobody serves any more, as the clerk finds them in a store."""

from __future__ import annotations

from collections.abc import Mapping

from pyrula_runtime.core.pins import Pin
from pyrula_runtime.duties.pins import PinWatch
from pyrula_runtime.stores.protocol import EVERY_STATUS, Serves, Store, WorkerRecord
from tests.store.samples import DAY_MS, new_run


def serving(*pairs: tuple[str, str | None], incarnation: str = "w-1") -> WorkerRecord:
    serves = tuple(Serves(workflow=workflow, version=version) for workflow, version in pairs)
    return WorkerRecord(
        incarnation=incarnation, worker_id="w", pid=1, host="h", serves=serves, capacity=1, running=0, draining=False
    )


async def test_a_pin_is_told_when_two_looks_have_found_nobody(store: Store) -> None:
    watch = PinWatch(store)

    async def look() -> Mapping[Pin, int]:
        return await watch.look((await store.census(EVERY_STATUS)).pins)

    assert await look() == {}
    await store.submit(new_run("order", "1"))
    await store.submit(new_run("order", None))
    assert await look() == {}  # a worker may be about to say that it serves it
    assert await look() == {("order", "1"): 1}
    await store.beat(serving(("order", "2")), DAY_MS)
    assert await look() == {("order", "1"): 1}
    await store.beat(serving(("order", "1"), incarnation="w-2"), DAY_MS)
    assert await look() == {}
