"""Runs whose version nobody serves any more, as the clerk finds them in a store."""

from __future__ import annotations

from pyrula_runtime.duties.pins import PinWatch
from pyrula_runtime.stores.protocol import Serves, Store, WorkerRecord
from tests.store.samples import DAY_MS, new_run


def serving(*pairs: tuple[str, str | None], incarnation: str = "w-1") -> WorkerRecord:
    serves = tuple(Serves(workflow=workflow, version=version) for workflow, version in pairs)
    return WorkerRecord(
        incarnation=incarnation, worker_id="w", pid=1, host="h", serves=serves, capacity=1, running=0, draining=False
    )


async def test_a_pin_is_told_when_two_looks_have_found_nobody(store: Store) -> None:
    watch = PinWatch(store)
    assert await watch.look() == {}
    await store.submit(new_run("order", "1"))
    await store.submit(new_run("order", None))
    assert await watch.look() == {}  # a worker may be about to say that it serves it
    assert await watch.look() == {("order", "1"): 1}
    await store.beat(serving(("order", "2")), DAY_MS)
    assert await watch.look() == {("order", "1"): 1}
    await store.beat(serving(("order", "1"), incarnation="w-2"), DAY_MS)
    assert await watch.look() == {}
